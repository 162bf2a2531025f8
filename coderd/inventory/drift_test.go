package inventory_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// drifting is a cloud that looks for drift, as often as every says.
type drifting struct {
	moody
	every  time.Duration
	found  map[string][]string // by the name of the workspace
	during func()              // done in the middle of each look
	looks  []string
}

func (d *drifting) DriftEvery() time.Duration { return d.every }

func (d *drifting) Drift(_ context.Context, ref provider.Ref) ([]string, error) {
	d.looks = append(d.looks, ref.Name)
	if d.during != nil {
		d.during()
	}
	if _, known := d.found[ref.Name]; !known {
		return nil, errors.New("cannot be reached")
	}
	return d.found[ref.Name], nil
}

// Each workspace is looked at once in the time that the provider says, by one of all replicas. What is found is shown, of a claimed one
// and of one that nobody has, and nothing is done about it. It is no mass that opens a breaker.
func TestDrift(t *testing.T) {
	t.Parallel()
	d := &drifting{every: time.Hour, found: map[string][]string{}}
	b := &bench{t: t, cloud: &d.moody}
	b.World = coderdtest.NewWorldWith(t, sim.Behavior{}, func(p provider.Provider) provider.Provider {
		d.Provider = p.(*sim.Provider)
		return d
	})
	b.replica = b.Start(t, coderdtest.Config{})
	b.exec("UPDATE providers SET inventory_every_s = 3600, breaker_count = 1, breaker_percent = 1")
	b.warm(3)
	claimed, err := b.World.Claim(t, b.replica, "t", claim.Request{})
	require.NoError(t, err)
	coderdtest.Eventually(t, "refilled and at rest", func() bool {
		return b.Warm(t, "t") == 3 && b.one("SELECT count(*)::text FROM jobs WHERE state IN ('pending', 'running')") == "0"
	})
	look := func() {
		t.Helper()
		d.looks = nil
		require.NoError(t, b.service(b.Installation).LookForDrift(t.Context(), "sim"))
	}
	later := func() {
		b.exec("UPDATE workspaces SET created_at = created_at - interval '61 minutes'")
		b.exec("UPDATE workspace_drift SET begun_at = begun_at - interval '61 minutes'")
	}
	stored := func(name string) string {
		return b.one(`SELECT coalesce((SELECT concat_ws('; ', d.looked_at IS NOT NULL, d.resources, substring(d.error from '[^:]*$')) FROM workspace_drift d
			JOIN workspaces w ON w.id = d.workspace_id WHERE w.name = $1), 'none')`, name)
	}
	owned := claimed.Workspace.Name
	pooled := b.one("SELECT min(name) FROM workspaces WHERE state = 'ready'")
	well := b.one("SELECT max(name) FROM workspaces WHERE state = 'ready'")
	d.found = map[string][]string{owned: {"disk.a", "disk.b"}, pooled: {"net.a"}, well: nil}

	look()
	require.Empty(t, d.looks, "they are young")
	later()
	look()
	require.Len(t, d.looks, 4)
	require.ElementsMatch(t, []string{"t; {disk.a,disk.b}; ", "t; {net.a}; ", "t; {}; "}, []string{stored(owned), stored(pooled), stored(well)})
	require.Equal(t, "1", b.one("SELECT count(*)::text FROM workspace_drift WHERE looked_at IS NULL AND error LIKE '%: cannot be reached'"))
	look()
	require.Empty(t, d.looks, "none is due")

	for range 3 {
		counts, res := b.pass()
		require.Equal(t, map[inventory.Verdict]int{inventory.OK: 2, inventory.Drifted: 2}, counts)
		require.False(t, res.Breaker.Open(), res.Breaker.Reason)
	}
	require.Equal(t, "it differs from what made it: disk.a, disk.b", b.one("SELECT detail FROM inventory_findings WHERE subject = $1", claimed.Workspace.ID.String()))
	require.Equal(t, "claimed", b.one("SELECT state::text FROM workspaces WHERE name = $1", owned))
	require.Equal(t, "ready", b.one("SELECT state::text FROM workspaces WHERE name = $1", pooled))

	// What a job did while somebody looked would pass for drift: it is not stored. A look that fails leaves what was found.
	later()
	d.found[well] = []string{"net.b"}
	delete(d.found, owned)
	d.during = func() {
		b.exec(`INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, state, due_at, created_at, finished_at)
			SELECT gen_random_uuid(), id, incarnation, 'handover', 'sim', 'done', prewarm_now(), prewarm_now(), prewarm_now()
			FROM workspaces WHERE name = $1`, well)
	}
	look()
	require.Equal(t, "t; {}; ", stored(well))
	require.Equal(t, "t; {disk.a,disk.b};  cannot be reached", stored(owned))

	// One at which a worker is gets no look, and its next incarnation begins without drift.
	later()
	d.during = nil
	b.exec("UPDATE workspaces SET incarnation = 2 WHERE name = $1", pooled)
	b.exec("UPDATE jobs SET state = 'pending', finished_at = NULL WHERE id = (SELECT id FROM jobs j WHERE kind = 'handover' LIMIT 1)")
	delete(d.found, pooled)
	look()
	require.NotContains(t, d.looks, well)
	require.Equal(t, "f; {};  cannot be reached", stored(pooled))

	d.every = 0
	later()
	look()
	require.Empty(t, d.looks, "the provider is not to look")
}

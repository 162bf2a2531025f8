package inventory_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database/inventorydb"
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

// newDrifting is a replica at such a cloud, which is to look every hour.
func newDrifting(t *testing.T) (*drifting, *bench) {
	t.Helper()
	d := &drifting{every: time.Hour, found: map[string][]string{}}
	b := &bench{t: t, cloud: &d.moody}
	b.World = coderdtest.NewWorldWith(t, sim.Behavior{}, func(p provider.Provider) provider.Provider {
		d.Provider = p.(*sim.Provider)
		return d
	})
	b.replica = b.Start(t, coderdtest.Config{})
	return d, b
}

// Each workspace is looked at once in the time that the provider says, by one of all replicas. What is found is shown, of a claimed one
// and of one that nobody has, and nothing is done about it. It is no mass that opens a breaker.
func TestDrift(t *testing.T) {
	t.Parallel()
	d, b := newDrifting(t)
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
	require.Equal(t, "resources that are not as its state says: 2", b.one("SELECT detail FROM inventory_findings WHERE subject = $1", claimed.Workspace.ID.String()))
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

	// A job that has changed a workspace since leaves nothing of what was found. Nor is anything shown where nobody looks any more, which
	// also a replica in the middle of its looks finds out.
	b.exec(`UPDATE jobs SET state = 'done', finished_at = prewarm_now() WHERE kind = 'handover'`)
	b.exec(`INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, state, due_at, created_at, finished_at)
		SELECT gen_random_uuid(), id, incarnation, 'handover', 'sim', 'done', prewarm_now(), prewarm_now(), prewarm_now()
		FROM workspaces WHERE name = $1`, owned)
	counts, _ := b.pass()
	require.Zero(t, counts[inventory.Drifted], counts)
	d.found[well] = []string{"net.b"}
	later()
	look()
	counts, _ = b.pass()
	require.Equal(t, 1, counts[inventory.Drifted])
	later()
	d.during = func() { d.every = 0 }
	look()
	require.Len(t, d.looks, 1)
	counts, _ = b.pass()
	require.Zero(t, counts[inventory.Drifted])
}

// Of replicas that look at once each takes another workspace.
func TestDrift_together(t *testing.T) {
	t.Parallel()
	_, b := newDrifting(t)
	b.warm(20)
	b.exec("UPDATE workspaces SET created_at = created_at - interval '61 minutes'")
	looked := make(chan uuid.UUID, 100)
	var looking sync.WaitGroup
	for range 4 {
		looking.Go(func() {
			for {
				due, err := inventorydb.New(b.Store).BeginDriftLook(t.Context(), inventorydb.BeginDriftLookParams{Provider: "sim", EveryS: 3600})
				if err != nil || len(due) == 0 && b.one("SELECT count(*)::text FROM workspace_drift") == "20" {
					looked <- uuid.Nil
					return
				}
				for _, is := range due {
					looked <- is.ID
				}
			}
		})
	}
	looking.Wait()
	close(looked)
	times := map[uuid.UUID]int{}
	for id := range looked {
		times[id]++
	}
	require.Equal(t, 4, times[uuid.Nil])
	require.Len(t, times, 21)
	for id, n := range times {
		require.True(t, n == 1 || id == uuid.Nil, "%s was looked at %d times", id, n)
	}
}

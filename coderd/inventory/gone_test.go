package inventory_test

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"cdr.dev/slog"
	"cdr.dev/slog/sloggers/sloghuman"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// S4: what is known to be gone takes no place at the provider, neither quarantined nor claimed; and takes it again as soon as
// a listing has it, or when it is to be made anew.
func TestPass_goneTakesNoPlace(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.replica.Reconciler.Nudge(b.Apply(t, `
providers:
  - {name: sim, kind: sim, maximum: 3}
templates:
  - name: t
    provider: sim
    spec: {create_latency: 0s}
    presets: [{name: default, prebuilds: {instances: 2}}]
`)...)
	coderdtest.Eventually(t, "2 of 2", func() bool { return b.Count(t, "t", "ready") == 2 })
	_, err := b.World.Claim(t, b.replica, "t", claim.Request{})
	require.NoError(t, err)
	coderdtest.Eventually(t, "refilled, to the maximum", func() bool { return b.Count(t, "t", "ready") == 2 })
	b.passes("all is well", map[inventory.Verdict]int{inventory.OK: 3})

	tags := map[string]provider.Tags{}
	all, err := b.cloud.List(context.Background(), b.Installation)
	require.NoError(t, err)
	for _, r := range all {
		tags[r.Name] = r.Tags
		require.NoError(t, b.cloud.Provider.Delete(context.Background(), provider.Ref{Name: r.Name}))
	}
	b.pass()
	b.pass()
	require.Equal(t, 2, b.Count(t, "t", "quarantined"))
	coderdtest.Eventually(t, "replaced, beside what is gone", func() bool { return b.Count(t, "t", "ready") == 2 })
	b.pass()
	require.Equal(t, "1", b.one("SELECT count(*)::text FROM workspaces WHERE state = 'claimed' AND gone_at IS NOT NULL"))
	b.exec("UPDATE presets SET instances = 3")
	coderdtest.Eventually(t, "3 of 3, beside what is claimed and gone", func() bool { return b.Count(t, "t", "ready") == 3 })

	// Nothing of it comes back for a person while others have its place.
	b.exec("UPDATE presets SET instances = 4")
	coderdtest.Eventually(t, "held back", func() bool {
		return b.one("SELECT (ledger::text LIKE '%provider_maximum%')::text FROM preset_status") == "true"
	})
	quarantined := b.one("SELECT id::text FROM workspaces WHERE state = 'quarantined' LIMIT 1")
	_, err = workspaces.New(b.Store, workspaces.NewID, "test").Retry(context.Background(), workspaces.Actor{UserID: workspaces.Prewarm}, uuid.MustParse(quarantined))
	var noRoom *workspaces.NoRoom
	require.ErrorAs(t, err, &noRoom)
	require.Contains(t, noRoom.Why, "maximum")

	claimed := b.one("SELECT name FROM workspaces WHERE state = 'claimed'")
	_, err = b.cloud.Provider.Create(context.Background(), provider.CreateRequest{Name: claimed, Tags: tags[claimed]})
	require.NoError(t, err)
	b.exec("UPDATE headroom SET instances = 1")
	b.pass()
	require.Equal(t, "0", b.one("SELECT count(*)::text FROM workspaces WHERE state = 'claimed' AND gone_at IS NOT NULL"))
	require.Equal(t, "true", b.one("SELECT (instances = 0)::text FROM headroom"))
}

// S4: what does not go for good is found gone once two inventories agree, and stays for people to look at.
func TestPass_goneInQuarantine(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.warm(1)
	name := b.one("SELECT name FROM workspaces WHERE state = 'ready'")
	_, err := workspaces.New(b.Store, workspaces.NewID, "test").Keep(context.Background(), workspaces.Actor{UserID: workspaces.Prewarm},
		uuid.MustParse(b.one("SELECT id::text FROM workspaces WHERE name = $1", name)), time.Hour)
	require.NoError(t, err)
	b.passes("kept", map[inventory.Verdict]int{inventory.OK: 2})
	require.NoError(t, b.cloud.Provider.Delete(context.Background(), provider.Ref{Name: name}))
	n, res := b.pass()
	require.Equal(t, map[inventory.Verdict]int{inventory.OK: 1, inventory.Gone: 1}, n)
	require.Equal(t, "false", b.one("SELECT (gone_at IS NOT NULL)::text FROM workspaces WHERE name = $1", name), "one inventory is not enough")
	require.Equal(t, "0", b.one("SELECT discrepancies::text FROM inventories"))
	require.False(t, res.Breaker.Open())
	b.pass()
	require.Equal(t, "true", b.one("SELECT (gone_at IS NOT NULL AND state = 'quarantined')::text FROM workspaces WHERE name = $1", name))
	b.passes("settled", map[inventory.Verdict]int{inventory.OK: 2})
}

// S1: of a claimed workspace that is missing there is a warning in the log, once, and a fault in listings, until it is there
// again.
func TestPass_claimedMissingIsSaid(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.warm(1)
	res, err := b.World.Claim(t, b.replica, "t", claim.Request{})
	require.NoError(t, err)
	coderdtest.Eventually(t, "refilled", func() bool { return b.Warm(t, "t") == 1 })
	b.passes("all is well", map[inventory.Verdict]int{inventory.OK: 2})
	tags := provider.Tags{Installation: b.Installation, WorkspaceID: res.Workspace.ID, Incarnation: 1}
	name := b.vanish("claimed")

	var log bytes.Buffer
	s := b.service(b.Installation, slog.Make(sloghuman.Sink(&log)))
	fault := func() string {
		row, err := viewsdb.New(b.Store).WorkspaceView(context.Background(), viewsdb.WorkspaceViewParams{
			OrganizationID: res.Workspace.OrganizationID, Name: &name,
		})
		require.NoError(t, err)
		list, err := viewsdb.New(b.Store).WorkspaceViews(context.Background(), []uuid.UUID{row.ID})
		require.NoError(t, err)
		require.Equal(t, row.Fault, list[0].Fault)
		return row.Fault
	}
	pass := func() {
		_, err := s.Pass(context.Background(), "sim")
		require.NoError(t, err)
	}
	pass()
	require.Empty(t, fault(), "one inventory is not enough")
	for range 3 {
		pass()
	}
	require.Equal(t, "missing: the provider no longer has it", fault())
	require.Equal(t, 1, strings.Count(log.String(), "claimed workspace is missing at its provider"), log.String())
	require.Contains(t, log.String(), "[warn]")

	_, err = b.cloud.Provider.Create(context.Background(), provider.CreateRequest{Name: name, Tags: tags})
	require.NoError(t, err)
	pass()
	require.Empty(t, fault())
}

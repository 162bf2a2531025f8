package reconcile_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

func maximum(t *testing.T, w *coderdtest.World, limit, instances int) []uuid.UUID {
	t.Helper()
	return w.Apply(t, fmt.Sprintf(`
providers: [{name: sim, kind: sim, maximum: %d}]
templates:
  - name: a
    provider: sim
    spec: {create_latency: 0s}
    presets: [{name: default, prebuilds: {instances: %d}}]
`, limit, instances))
}

// I3, S4: no pass goes beyond a provider's maximum, also not a nudge pass right after the maximum was lowered, which
// has only the headroom of the one before to go by.
func TestMaximum_holdsForNudges(t *testing.T) {
	w := coderdtest.NewWorld(t, sim.Behavior{})
	maximum(t, w, 20, 2)
	// Deaf: who begins to listen makes a full pass once it does, whenever that is.
	r := w.Start(t, coderdtest.Config{Tick: time.Hour, Deaf: true})
	coderdtest.Eventually(t, "2 of 20", func() bool { return w.Count(t, "a", "ready") == 2 })

	r.Reconciler.Nudge(maximum(t, w, 5, 15)...)
	// The next full pass, which may fill up to the maximum, is what Missed asks for.
	coderdtest.Eventually(t, "the pass that the nudge asked for", func() bool {
		var held bool
		require.NoError(t, w.Store.Pool.QueryRow(context.Background(),
			"SELECT ledger::text LIKE '%maximum%' FROM preset_status").Scan(&held))
		return held
	})
	require.Equal(t, 2, w.Count(t, "a", "provisioning", "starting", "ready"))
	r.Reconciler.Missed()
	coderdtest.Eventually(t, "5 of 5", func() bool { return w.Count(t, "a", "ready") == 5 })
	require.Equal(t, 5, w.Count(t, "a", "provisioning", "starting", "ready"))
}

// A full pass has counted what there is: what a maximum holds back then waits for a place, and not for another pass at once.
func TestMaximum_aFullPassAsksForNoOther(t *testing.T) {
	w := coderdtest.NewWorld(t, sim.Behavior{})
	maximum(t, w, 1, 3)
	r := w.Start(t, coderdtest.Config{Tick: time.Hour, NoWork: true, NoPass: true})
	full, err := r.Reconciler.Pass(context.Background())
	require.NoError(t, err)
	require.Equal(t, 1, full.Created)
	require.Empty(t, full.Again)
}

// S5: what a chunk of creates holds back is created by the next passes, at once, though the next tick is far away.
func TestChunk_theNextPassGoesOn(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Apply(t, `
providers: [{name: sim, kind: sim, chunk: 2}]
templates:
  - name: a
    provider: sim
    spec: {}
    presets: [{name: default, prebuilds: {instances: 9}}]
`)
	w.Start(t, coderdtest.Config{Tick: time.Hour, NoWork: true, Deaf: true})
	coderdtest.Eventually(t, "all 9, by twos", func() bool { return w.Count(t, "a", "provisioning") == 9 })
}

// S5: what a pass creates counts against its provider's rate in the next one, and against that of no other provider.
func TestRate_ofEachProvider(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Apply(t, `
providers:
  - {name: sim, kind: sim, create_every: 1h, create_burst: 2}
  - {name: other, kind: sim, create_every: 1h, create_burst: 3}
templates:
  - {name: a, provider: sim, spec: {}, presets: [{name: default, prebuilds: {instances: 9}}]}
  - {name: b, provider: other, spec: {}, presets: [{name: default, prebuilds: {instances: 9}}]}
`)
	r := w.Start(t, coderdtest.Config{Tick: time.Hour, NoWork: true, NoPass: true})
	created := func() []int {
		_, err := r.Reconciler.Pass(t.Context())
		require.NoError(t, err)
		return []int{w.Count(t, "a", "provisioning"), w.Count(t, "b", "provisioning")}
	}
	require.Equal(t, []int{2, 3}, created())
	require.Equal(t, []int{2, 3}, created())
	_, err := w.Store.Pool.Exec(t.Context(), "UPDATE create_rates SET full_at = full_at - interval '1 hour' WHERE provider = 'sim'")
	require.NoError(t, err)
	require.Equal(t, []int{3, 3}, created())
}

// I3, S4: a nudge pass creates no more than the full pass before it left of the maximum.
func TestMaximum_aNudgeSpendsTheHeadroom(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	maximum(t, w, 5, 3)
	r := w.Start(t, coderdtest.Config{Tick: time.Hour, NoWork: true, Deaf: true})
	coderdtest.Eventually(t, "3 of 5", func() bool { return w.Count(t, "a", "provisioning") == 3 })

	r.Reconciler.Nudge(maximum(t, w, 5, 9)...)
	coderdtest.Eventually(t, "the pass that the nudge asked for", func() bool { return w.Count(t, "a", "provisioning") > 3 })
	require.Equal(t, 5, w.Count(t, "a", "provisioning"), "more live workspaces than the maximum of 5")
}

// S4: a nudge has the headroom of the full pass before to spend. Once that is spent, the next one counts what there is: what
// has ended since makes room, though the next tick is far away.
func TestMaximum_isCountedOnceTheHeadroomIsSpent(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	maximum(t, w, 3, 2)
	r := w.Start(t, coderdtest.Config{Tick: time.Hour, NoWork: true, Deaf: true})
	coderdtest.Eventually(t, "2 of 3", func() bool { return w.Count(t, "a", "provisioning") == 2 })
	var id uuid.UUID
	require.NoError(t, w.Store.Pool.QueryRow(t.Context(), "SELECT id FROM workspaces LIMIT 1").Scan(&id))
	_, err := r.Writer.Delete(t.Context(), workspaces.Actor{UserID: workspaces.Prewarm, Reason: "test"}, id, false)
	require.NoError(t, err)
	require.Equal(t, 1, w.Count(t, "a", "deleted"), "nothing of it was made")

	r.Reconciler.Nudge(maximum(t, w, 3, 3)...)
	coderdtest.Eventually(t, "3 of 3", func() bool { return w.Count(t, "a", "provisioning") == 3 })
}

// S4: the nudge of the end that frees a place looks again at what the maximum held back, of whatever template, though the
// next tick is far away.
func TestMaximum_isLookedAtAgainByTheEnd(t *testing.T) {
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Apply(t, `
providers:
  - {name: sim, kind: sim, maximum: 3}
templates:
  - name: a
    provider: sim
    spec: {create_latency: 0s}
    presets: [{name: default, prebuilds: {instances: 1}}]
  - name: b
    provider: sim
    spec: {create_latency: 0s}
    presets: [{name: default, prebuilds: {instances: 1}}]
`)
	r := w.Start(t, coderdtest.Config{Tick: time.Hour, Deaf: true})
	coderdtest.Eventually(t, "1 of 1 of each", func() bool { return w.Count(t, "a", "ready") == 1 && w.Count(t, "b", "ready") == 1 })
	res, err := w.Claim(t, r, "a", claim.Request{})
	require.NoError(t, err)
	coderdtest.Eventually(t, "full", func() bool { return w.Count(t, "a", "ready") == 1 })
	_, err = w.Claim(t, r, "b", claim.Request{})
	require.NoError(t, err)
	coderdtest.Eventually(t, "b is held back", func() bool {
		var held bool
		require.NoError(t, w.Store.Pool.QueryRow(context.Background(), `SELECT ledger::text LIKE '%provider_maximum%'
			FROM preset_status WHERE preset_id = $1`, w.Preset(t, "b")).Scan(&held))
		return held
	})
	require.Equal(t, 0, w.Count(t, "b", "provisioning", "starting", "ready"))

	_, err = r.Writer.Release(context.Background(), workspaces.Actor{UserID: workspaces.Prewarm}, res.Workspace.ID)
	require.NoError(t, err)
	r.Hints.Wake()
	coderdtest.Eventually(t, "b has the place that a's user gave back", func() bool { return w.Count(t, "b", "ready") == 1 })
	require.Equal(t, 1, w.Count(t, "a", "ready"))
}

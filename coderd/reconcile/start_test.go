package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// TestC1_aPassAtStart: with a tick an hour away and without any nudge, what is wanted is made when a replica starts.
func TestC1_aPassAtStart(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "a", 1, 1)
	w.Start(t, coderdtest.Config{Tick: time.Hour, Deaf: true})
	coderdtest.Eventually(t, "made at start", func() bool { return w.Count(t, "a", "ready") == 1 })
}

// TestC16_initiator: what the reconciler and its workers do is recorded as done by the built-in identity, which owns the
// prebuild, and every step has a reason.
func TestC16_initiator(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "a", 1, 1)
	r := w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "ready", func() bool { return w.Count(t, "a", "ready") == 1 })
	r.Reconciler.Nudge(w.Pool(t, "a", 0, 1)...)
	coderdtest.Eventually(t, "gone", func() bool { return w.Count(t, "a", "deleted") == 1 })
	var owner string
	require.NoError(t, w.Store.Pool.QueryRow(ctx,
		"SELECT u.name FROM workspaces w JOIN users u ON u.id = w.owner_id").Scan(&owner))
	require.Equal(t, "prewarm", owner)
	rows, err := w.Store.Pool.Query(ctx, `SELECT h.to_state::text, u.name, h.reason FROM workspace_history h
		JOIN users u ON u.id = h.actor_id ORDER BY h.id`)
	require.NoError(t, err)
	defer rows.Close()
	steps := 0
	for ; rows.Next(); steps++ {
		var to, actor, reason string
		require.NoError(t, rows.Scan(&to, &actor, &reason))
		require.Equal(t, "prewarm", actor, to)
		require.NotEmpty(t, reason, to)
	}
	require.NoError(t, rows.Err())
	require.GreaterOrEqual(t, steps, 6, "from provisioning to deleted")
}

package e2e_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// C2, I3: many replicas begin a full pass at the same instant, on a pool that lacks one. Some take their snapshot before
// the first of them commits, and the lock after it; only the fence tells them that what they see is over.
//
// In most passes something else would tell them too: the status row that both write, the mark of a nudged template, the
// headroom of a provider with a maximum. So each round is made such that a pass writes none of these, by letting the
// pass before it see the same.
func TestFence_passesAtOnce(t *testing.T) {
	t.Parallel()
	const replicas, desired = 12, 5
	ctx := context.Background()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "a", desired, 1)
	var all []*coderdtest.Replica
	for range replicas {
		all = append(all, w.Start(t, coderdtest.Config{Tick: time.Hour, NoWork: true, Deaf: true}))
	}
	passes := make([]int, replicas) // asked for; each begins with one
	for i := range passes {
		passes[i] = 1
	}
	settled := func() {
		t.Helper()
		coderdtest.Eventually(t, "served passes", func() bool {
			for i, r := range all {
				if served(t, r) < passes[i] {
					return false
				}
			}
			return true
		})
		require.LessOrEqual(t, w.Count(t, "a", "provisioning"), desired,
			"I3: more prebuilds than desired: two passes created for the same deficit")
	}
	pass := func(some ...int) {
		t.Helper()
		for _, i := range some {
			passes[i]++
			all[i].Reconciler.Missed()
		}
		settled()
		require.Equal(t, desired, w.Count(t, "a", "provisioning"))
	}
	everybody := make([]int, replicas)
	for i := range everybody {
		everybody[i] = i
	}

	settled()
	for range rounds(30) {
		loseOne(ctx, t, w, all[0])
		pass(0)
		loseOne(ctx, t, w, all[0])
		pass(everybody...)
	}
}

// served is how many ticks of a replica are over, done by itself or by another.
func served(t *testing.T, r *coderdtest.Replica) int {
	t.Helper()
	passes := r.Counted(t, "prewarm_passes_total", "trigger", "outcome")
	return int(passes["tick done"] + passes["tick elsewhere"])
}

// loseOne takes a workspace out of the pool, without a nudge.
func loseOne(ctx context.Context, t *testing.T, w *coderdtest.World, r *coderdtest.Replica) {
	t.Helper()
	var id uuid.UUID
	require.NoError(t, w.Store.Pool.QueryRow(ctx,
		"SELECT id FROM workspaces WHERE state = 'provisioning' ORDER BY id LIMIT 1").Scan(&id))
	_, err := r.Writer.Delete(ctx, workspaces.Actor{UserID: w.Owner, Reason: "test"}, id, false)
	require.NoError(t, err)
}

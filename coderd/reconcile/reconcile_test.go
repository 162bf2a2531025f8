package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database"
)

func TestPool_fillsAndRefills(t *testing.T) {
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "a", 3, 1)
	r := w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "pool of 3", func() bool { return w.Count(t, "a", "ready") == 3 })

	res, err := w.Claim(t, r, "a", claim.Request{})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeHit, res.Outcome)
	coderdtest.Eventually(t, "refilled to 3", func() bool { return w.Count(t, "a", "ready") == 3 })
	require.Equal(t, 1, w.Count(t, "a", "claimed"))
}

func TestScaleDown_drainsTheSurplus(t *testing.T) {
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "a", 5, 1)
	r := w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "pool of 5", func() bool { return w.Count(t, "a", "ready") == 5 })
	r.Reconciler.Nudge(w.Pool(t, "a", 2, 1)...)
	coderdtest.Eventually(t, "pool of 2, and nothing else", func() bool {
		return w.Count(t, "a", "ready") == 2 && w.Count(t, "a", "deleted") == 3
	})
	n, err := w.Cloud.Count()
	require.NoError(t, err)
	require.Equal(t, 2, n)
}

func TestNewVersion_replacesThePool(t *testing.T) {
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "a", 3, 1)
	r := w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "pool of 3", func() bool { return w.Count(t, "a", "ready") == 3 })
	r.Reconciler.Nudge(w.Pool(t, "a", 3, 2)...)
	coderdtest.Eventually(t, "old ones gone, new ones ready", func() bool {
		return w.Count(t, "a", "ready") == 3 && w.Count(t, "a", "deleted") == 3
	})
}

// A nudge for a template that is not there does not take the others down with it.
func TestNudge_ofNoTemplate(t *testing.T) {
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{Tick: time.Hour})
	r.Reconciler.Nudge(append(w.Pool(t, "a", 2, 1), uuid.New(), uuid.Nil)...)
	coderdtest.Eventually(t, "pool of 2", func() bool { return w.Count(t, "a", "ready") == 2 })
	r.Reconciler.Nudge(append(w.Pool(t, "a", 3, 1), uuid.New())...)
	coderdtest.Eventually(t, "pool of 3", func() bool { return w.Count(t, "a", "ready") == 3 })
}

func TestDeaf_oneTickIsEnough(t *testing.T) {
	w := coderdtest.NewWorld(t, sim.Behavior{})
	// The replica that claims makes no workspaces and its passes are those of its first tick; the one that works hears
	// nothing and has its tick only.
	worker := w.Start(t, coderdtest.Config{Deaf: true, Tick: time.Second})
	w.Pool(t, "a", 2, 1)
	coderdtest.Eventually(t, "filled by the tick", func() bool { return w.Count(t, "a", "ready") == 2 })
	_, err := worker.Store.Pool.Exec(context.Background(), "UPDATE presets SET instances = 4")
	require.NoError(t, err)
	coderdtest.Eventually(t, "filled by the next tick", func() bool { return w.Count(t, "a", "ready") == 4 })
}

func TestWaitingClaim_isBuiltFor(t *testing.T) {
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "a", 0, 1)
	r := w.Start(t, coderdtest.Config{})
	res, err := w.Claim(t, r, "a", claim.Request{})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeMiss, res.Outcome)
	require.Contains(t, res.Reason, "scaled to 0")

	res, err = w.Claim(t, r, "a", claim.Request{Mode: database.ClaimModePrefer, Wait: time.Minute})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeWaited, res.Outcome)
	require.NotNil(t, res.Workspace)
}

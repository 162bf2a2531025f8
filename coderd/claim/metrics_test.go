package claim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// Claims are counted by what came of them, and those that were given a prebuild by its tier.
func TestMetrics(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	replica := w.Start(t, coderdtest.Config{Tick: time.Hour})
	replica.Reconciler.Nudge(w.Pool(t, "go", 2, 1)...)
	coderdtest.Eventually(t, "a pool of two", func() bool { return w.Warm(t, "go") == 2 })
	pauseAll(t, w)
	for _, hit := range []bool{true, true, false} {
		got, err := w.Claim(t, replica, "go", claim.Request{})
		require.NoError(t, err)
		require.Equal(t, hit, got.Workspace != nil)
	}
	require.Equal(t, map[string]float64{"hit": 2, "miss": 1}, replica.Counted(t, "prewarm_claims_total", "outcome"))
	require.Equal(t, map[string]float64{"running": 2}, replica.Counted(t, "prewarm_claims_by_tier_total", "tier"), "a miss is of no tier")
}

package claim_test

import (
	"slices"
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

// The alert PrewarmClaimsSlow is for more than half a second. It can only tell from a bucket that ends there.
func TestMetrics_bucketOfAlert(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{NoWork: true, NoPass: true})
	w.Pool(t, "go", 0, 1)
	_, err := w.Claim(t, r, "go", claim.Request{})
	require.NoError(t, err)
	families, err := r.Metrics.Gather()
	require.NoError(t, err)
	var ends []float64
	for _, family := range families {
		if family.GetName() == "prewarm_claim_duration_seconds" {
			for _, bucket := range family.GetMetric()[0].GetHistogram().GetBucket() {
				ends = append(ends, bucket.GetUpperBound())
			}
		}
	}
	require.True(t, slices.ContainsFunc(ends, func(s float64) bool { return s >= 0.5 && s < 0.55 }), "%v", ends)
}

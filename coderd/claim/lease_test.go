package claim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// A claim that asks for a lease is told when it ends.
func TestClaim_lease(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "a", 2, 1)
	r := w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "a pool of two", func() bool { return w.Count(t, "a", "ready") == 2 })
	begun := time.Now()
	res, err := w.Claim(t, r, "a", claim.Request{Lease: time.Hour})
	require.NoError(t, err)
	require.NotNil(t, res.LeaseUntil)
	require.WithinRange(t, *res.LeaseUntil, begun.Add(59*time.Minute), time.Now().Add(61*time.Minute))
	res, err = w.Claim(t, r, "a", claim.Request{})
	require.NoError(t, err)
	require.Nil(t, res.LeaseUntil)
}

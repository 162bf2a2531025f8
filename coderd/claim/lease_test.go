package claim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
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

// Of several that were claimed together each is renewed alone, so each says when it ends, and the answer when the first does.
func TestTogether_lease(t *testing.T) {
	t.Parallel()
	w, r := still(t, 3)
	ctx := t.Context()
	req := claim.Request{Count: 3, Key: "k", Lease: time.Hour}
	res, err := w.Claim(t, r, "a", req)
	require.NoError(t, err)
	require.Len(t, res.Together, 3, res.Reason)
	first := *res.LeaseUntil
	longer := int32(7200)
	until, err := workspaces.RenewLease(ctx, w.Store, workspaces.RenewLeaseParams{ClaimID: res.ClaimID, LeaseS: &longer})
	require.NoError(t, err)

	res, err = w.Claim(t, r, "a", req) // asked again: the answer was lost
	require.NoError(t, err)
	require.Len(t, res.Together, 3)
	require.WithinDuration(t, first, *res.LeaseUntil, 0)
	for _, g := range res.Together {
		if g.ClaimID == res.ClaimID {
			require.WithinDuration(t, *until, *g.LeaseUntil, 0)
		} else {
			require.WithinDuration(t, first, *g.LeaseUntil, 0)
		}
	}
}

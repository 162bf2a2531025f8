package retention_test

import (
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/retention"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/claimdb"
)

// The key of a released claim is kept for a day, and freed after it; that of a claim that holds its workspace stays.
func TestKey_freedAfterADay(t *testing.T) {
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{Tick: time.Hour})
	r.Reconciler.Nudge(w.Pool(t, "go", 3, 1)...)
	coderdtest.Eventually(t, "pool of 3", func() bool { return w.Warm(t, "go") == 3 })
	ids := map[string]uuid.UUID{}
	for _, key := range []string{"old", "young", "held"} {
		res, err := w.Claim(t, r, "go", claim.Request{Mode: database.ClaimModePrefer, Wait: time.Minute, Key: key})
		require.NoError(t, err)
		require.NotNil(t, res.Workspace, res.Reason)
		ids[key] = res.ClaimID
		if key != "held" {
			_, err = r.Writer.Release(t.Context(), r.Writer.System("test"), res.Workspace.ID)
			require.NoError(t, err)
		}
	}
	for key, age := range map[string]string{"old": "24 hours 10 minutes", "young": "23 hours"} {
		_, err := w.Store.Pool.Exec(t.Context(),
			"UPDATE claims SET released_at = prewarm_now() - $2::interval WHERE id = $1", ids[key], age)
		require.NoError(t, err)
	}
	_, err := w.Store.Pool.Exec(t.Context(),
		"UPDATE claims SET created_at = created_at - interval '9 days', bound_at = bound_at - interval '9 days' WHERE id = $1",
		ids["held"])
	require.NoError(t, err)
	keeper := retention.Keeper{Store: w.Store, Clock: quartz.NewReal()}
	require.NoError(t, keeper.Purge(t.Context()))
	for key, kept := range map[string]bool{"old": false, "young": true, "held": true} {
		c, err := claimdb.New(w.Store).ClaimByID(t.Context(), ids[key])
		require.NoError(t, err)
		require.Equal(t, kept, c.IdempotencyKey != nil, key)
	}
}

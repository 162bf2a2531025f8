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
	"github.com/prewarm-dev/prewarm/database/apidb"
)

// TestC10_pause: in each of the four scopes, what is paused is neither filled nor shrunk while claims go on; what is not
// covered goes on; it ends by resuming, and by the clock without anybody's doing and without a tick.
func TestC10_pause(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		scope  database.PauseScope
		target func(*testing.T, *coderdtest.World) string
		covers bool // the other template too
	}{
		{database.PauseScopeGlobal, func(*testing.T, *coderdtest.World) string { return "" }, true},
		{database.PauseScopeProvider, func(*testing.T, *coderdtest.World) string { return "sim" }, true},
		{database.PauseScopeTemplate, func(t *testing.T, w *coderdtest.World) string {
			t.Helper()
			var id uuid.UUID
			require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT id FROM templates WHERE name = 'a'").Scan(&id))
			return id.String()
		}, false},
		{database.PauseScopePreset, func(t *testing.T, w *coderdtest.World) string {
			t.Helper()
			return w.Preset(t, "a").String()
		}, false},
	} {
		t.Run(string(tc.scope), func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			w := coderdtest.NewWorld(t, sim.Behavior{})
			both := append(w.Pool(t, "a", 2, 1), w.Pool(t, "b", 2, 1)...)
			r := w.Start(t, coderdtest.Config{Tick: time.Hour})
			coderdtest.Eventually(t, "both pools of 2", func() bool {
				return w.Count(t, "a", "ready") == 2 && w.Count(t, "b", "ready") == 2
			})
			target := tc.target(t, w)
			pause := func(seconds *float64) {
				_, err := apidb.New(w.Store).UpsertPause(ctx, apidb.UpsertPauseParams{
					ID: uuid.New(), Scope: tc.scope, Target: target, Reason: "maintenance", CreatedBy: w.Owner, ExpiresInS: seconds,
				})
				require.NoError(t, err)
			}
			heldBack := func(n int) func() bool {
				return func() bool {
					var held int
					err := w.Store.Pool.QueryRow(ctx, `SELECT coalesce(sum(-(l->>'count')::int), 0) FROM preset_status s,
						jsonb_array_elements(s.ledger->'creates') l WHERE s.preset_id = $1 AND l->>'rule' = 'C10'
						AND l->>'reason' = 'paused: maintenance'`, w.Preset(t, "a")).Scan(&held)
					require.NoError(t, err)
					return held == n
				}
			}

			pause(nil)
			r.Reconciler.Nudge(append(w.Pool(t, "a", 4, 1), w.Pool(t, "b", 3, 1)...)...)
			coderdtest.Eventually(t, "a pass that holds 2 creates back", heldBack(2))
			if !tc.covers {
				coderdtest.Eventually(t, "what is not covered goes on", func() bool { return w.Count(t, "b", "ready") == 3 })
			}
			res, err := w.Claim(t, r, "a", claim.Request{})
			require.NoError(t, err)
			require.Equal(t, database.ClaimOutcomeHit, res.Outcome, "claims go on")
			coderdtest.Eventually(t, "a pass that does not refill", heldBack(3))
			require.Equal(t, 1, w.Count(t, "a", "provisioning", "starting", "ready"))
			// Nothing goes either.
			r.Reconciler.Nudge(w.Pool(t, "a", 0, 1)...)
			coderdtest.Eventually(t, "a pass that holds no create back", heldBack(0))
			require.Equal(t, 1, w.Count(t, "a", "ready"))
			var intents int
			require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT count(*) FROM intents").Scan(&intents))
			require.Zero(t, intents)

			// By resuming.
			_, err = apidb.New(w.Store).DeletePause(ctx, apidb.DeletePauseParams{Scope: tc.scope, Target: target})
			require.NoError(t, err)
			w.Pool(t, "a", 2, 1)
			r.Reconciler.Nudge(both...) // as the API does
			coderdtest.Eventually(t, "filled once resumed", func() bool {
				return w.Count(t, "a", "ready") == 2 && w.Count(t, "b", "ready") == 3
			})

			// By the clock: the pass that sees the pause looks again when it ends, and the next tick is an hour away.
			soon := 2.0
			pause(&soon)
			r.Reconciler.Nudge(w.Pool(t, "a", 3, 1)...)
			coderdtest.Eventually(t, "filled when the pause is over", func() bool { return w.Count(t, "a", "ready") == 3 })
			var over bool
			require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT expires_at <= prewarm_now() FROM pauses").Scan(&over))
			require.True(t, over, "not before it is over")
		})
	}
}

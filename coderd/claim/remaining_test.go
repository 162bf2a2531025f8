package claim_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database"
)

// TestC9_minRemaining: what has less of its TTL left than a claim must find is not handed out, by none of the ways in
// which a claim gets a workspace; what has more is.
func TestC9_minRemaining(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{Tick: time.Hour})
	r.Reconciler.Nudge(w.Apply(t, `
templates:
  - name: a
    provider: sim
    spec: {}
    presets:
      - name: default
        prebuilds: {instances: 2, ttl: 8h, min_remaining: 30m}
`)...)
	coderdtest.Eventually(t, "pool of 2", func() bool { return w.Warm(t, "a") == 2 })
	pauseAll(t, w)
	left := func(which, remaining string) {
		_, err := w.Store.Pool.Exec(ctx, `UPDATE workspaces SET expires_at = now() + $2::interval WHERE id =
			(SELECT id FROM workspaces WHERE state = 'ready' ORDER BY ready_at `+which+`, id LIMIT 1)
			AND $1 <> ''`, which, remaining)
		require.NoError(t, err)
	}
	left("ASC", "29 minutes")
	left("DESC", "40 minutes")
	res, err := w.Claim(t, r, "a", claim.Request{Mode: database.ClaimModeRequire})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeHit, res.Outcome)
	require.Greater(t, time.Until(*res.Workspace.ExpiresAt), 30*time.Minute, "the one with more left, though it is younger")

	res, err = w.Claim(t, r, "a", claim.Request{Mode: database.ClaimModeRequire})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeMiss, res.Outcome, "29 minutes are too few")
	res, err = w.Claim(t, r, "a", claim.Request{Mode: database.ClaimModePrefer, Wait: 200 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeMiss, res.Outcome, "nor is it bound to who waits")

	resumeAll(t, w) // the next pass lets it go, and two others are made
	r.Reconciler.Missed()
	coderdtest.Eventually(t, "pool of 2 that can be claimed", func() bool {
		return count(t, w, "workspaces WHERE state = 'ready' AND expires_at > now() + interval '30 minutes'") == 2 &&
			count(t, w, "workspaces WHERE state = 'ready'") == 2
	})
	require.Equal(t, 1, count(t, w, "workspace_history WHERE reason = 'C9: expired'  AND to_state = 'draining'"))
}

// TestC9_jitter: prebuilds that became ready together expire within the jitter, and not together.
func TestC9_jitter(t *testing.T) {
	t.Parallel()
	const n = 20
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{Tick: time.Hour})
	r.Reconciler.Nudge(w.Apply(t, `
templates:
  - name: a
    provider: sim
    spec: {}
    presets:
      - name: default
        prebuilds: {instances: 20, ttl: 10h, ttl_jitter: 20%}
`)...)
	coderdtest.Eventually(t, "pool of 20", func() bool { return w.Warm(t, "a") == n })
	var least, most float64
	var distinct int
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), `
		SELECT extract(epoch FROM min(expires_at - ready_at)), extract(epoch FROM max(expires_at - ready_at)),
		       count(DISTINCT round(extract(epoch FROM expires_at - ready_at)))
		FROM workspaces WHERE state = 'ready'`).Scan(&least, &most, &distinct))
	hours := time.Hour.Seconds()
	require.GreaterOrEqual(t, least, 8*hours)
	require.LessOrEqual(t, most, 10*hours)
	require.Greater(t, most-least, hours/10, "20 of them by chance within 6 minutes: once in 10^20")
	require.Greater(t, distinct, n/2)
}

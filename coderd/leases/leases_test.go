package leases_test

import (
	"context"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/leases"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/claimdb"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// A claim whose lease is over is released, whether its length came from the request or the template; one that was renewed,
// or has none, is not, even where it is renewed between the look and the release.
func TestLeases_end(t *testing.T) {
	ctx := context.Background()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{Tick: time.Hour})
	r.Reconciler.Nudge(w.Apply(t, `
templates:
  - name: a
    provider: sim
    spec: {}
    claims: {lease: 1h}
    presets:
      - name: default
        prebuilds: {instances: 4}
`)...)
	r.Reconciler.Nudge(w.Pool(t, "b", 2, 1)...)
	coderdtest.Eventually(t, "pools", func() bool { return w.Warm(t, "a") == 4 && w.Warm(t, "b") == 2 })
	ender := &leases.Ender{
		Store: w.Store, Writer: r.Writer, Clock: quartz.NewReal(), Log: slog.Make(), Hints: r.Hints,
	}
	claimed := func(pool string, req claim.Request) uuid.UUID {
		res, err := w.Claim(t, r, pool, req)
		require.NoError(t, err)
		require.NotNil(t, res.Workspace, res.Reason)
		return res.Workspace.ID
	}
	state := func(id uuid.UUID) (s string) {
		require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT state::text FROM workspaces WHERE id = $1", id).Scan(&s))
		return s
	}
	byTemplate, renewed, own := claimed("a", claim.Request{}), claimed("a", claim.Request{}), claimed("a", claim.Request{Lease: 3 * time.Hour})
	waited := claimed("a", claim.Request{Count: 1, Mode: database.ClaimModePrefer, Wait: time.Minute})
	never, asked := claimed("b", claim.Request{}), claimed("b", claim.Request{Lease: time.Hour})
	var left int
	require.NoError(t, w.Store.Pool.QueryRow(ctx, `SELECT count(*) FROM claims WHERE lease_until > now() + interval '59 minutes'
		AND lease_until <= bound_at + lease_s * interval '1 second'`).Scan(&left))
	require.Equal(t, 5, left, "all but one have a lease")

	require.NoError(t, ender.End(ctx))
	require.Equal(t, 6, w.Count(t, "a", "claimed")+w.Count(t, "b", "claimed"), "none is over")

	_, err := w.Store.Pool.Exec(ctx, "UPDATE claims SET lease_until = lease_until - interval '2 hours' WHERE lease_until IS NOT NULL")
	require.NoError(t, err)
	_, err = workspacesdb.New(w.Store).RenewLease(ctx, workspacesdb.RenewLeaseParams{ClaimID: claimOf(t, w, renewed)})
	require.NoError(t, err)
	require.NoError(t, ender.End(ctx))
	for _, id := range []uuid.UUID{byTemplate, waited, asked} {
		require.NotEqual(t, "claimed", state(id))
	}
	for _, id := range []uuid.UUID{renewed, own, never} {
		require.Equal(t, "claimed", state(id))
	}
	var reason string
	require.NoError(t, w.Store.Pool.QueryRow(ctx, `SELECT reason FROM workspace_history WHERE workspace_id = $1
		AND to_state = 'draining'`, byTemplate).Scan(&reason))
	require.Equal(t, "the lease of 1h0m0s was over", reason)

	_, err = r.Writer.EndLease(ctx, renewed, 1, "as a replica would that looked before the renewal")
	require.Error(t, err)
	require.Equal(t, "claimed", state(renewed))
	_, err = workspacesdb.New(w.Store).RenewLease(ctx, workspacesdb.RenewLeaseParams{ClaimID: claimOf(t, w, byTemplate)})
	require.True(t, database.NoRows(err), "what is over cannot be renewed")
	_, err = workspacesdb.New(w.Store).RenewLease(ctx, workspacesdb.RenewLeaseParams{ClaimID: claimOf(t, w, never)})
	require.True(t, database.NoRows(err), "what has no lease is not given one unasked")
}

func claimOf(t *testing.T, w *coderdtest.World, workspace uuid.UUID) (id uuid.UUID) {
	t.Helper()
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT claim_id FROM workspaces WHERE id = $1",
		workspace).Scan(&id))
	return id
}

// A place in line whose client is gone ends with its deadline: nobody has to ask again, and the key is free for who does.
func TestWaits_end(t *testing.T) {
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{Tick: time.Hour})
	w.Pool(t, "a", 0, 1)
	_, err := w.Store.Pool.Exec(t.Context(), `INSERT INTO pauses (id, scope, target, reason, created_at, created_by)
		VALUES ($1, 'global', '', 'nothing is built', now(), $2)`, uuid.New(), w.Owner)
	require.NoError(t, err)
	preset := w.Preset(t, "a")
	waits := func(key string) uuid.UUID {
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			_, _ = r.Claims.Claim(ctx, claim.Request{
				UserID: w.Owner, PresetID: preset, Mode: database.ClaimModePrefer, Wait: time.Hour, Key: key,
			})
		}()
		var id uuid.UUID
		coderdtest.Eventually(t, "in line", func() bool {
			return w.Store.Pool.QueryRow(t.Context(), "SELECT id FROM claims WHERE state = 'waiting' AND idempotency_key = $1", key).Scan(&id) == nil
		})
		leave()
		<-gone
		return id
	}
	over, left := waits("over"), waits("left")
	ender := &leases.Ender{
		Store: w.Store, Writer: r.Writer, Clock: quartz.NewReal(), Log: slog.Make(), Hints: r.Hints,
	}
	_, err = w.Store.Pool.Exec(t.Context(), "UPDATE claims SET deadline_at = now() - interval '6 seconds' WHERE id = $1", over)
	require.NoError(t, err)
	_, err = w.Store.Pool.Exec(t.Context(), "UPDATE claims SET deadline_at = now() - interval '1 second' WHERE id = $1", left)
	require.NoError(t, err)
	require.NoError(t, ender.End(t.Context()))
	c, err := claimdb.New(w.Store).ClaimByID(t.Context(), over)
	require.NoError(t, err)
	require.Equal(t, database.ClaimStateMissed, c.State)
	require.Nil(t, c.IdempotencyKey)
	c, err = claimdb.New(w.Store).ClaimByID(t.Context(), left)
	require.NoError(t, err)
	require.Equal(t, database.ClaimStateWaiting, c.State, "its own replica still may end it, and say why")
}

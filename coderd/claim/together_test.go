package claim_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database"
)

// Requests for five and for one at once, over two replicas, on a pool of 23: whoever is served has all that was asked for,
// nobody has another's, and as many are given as fit.
func TestTogether_allOrNothing(t *testing.T) {
	t.Parallel()
	const stock = 23
	w, r := still(t, stock)
	other := w.Start(t, coderdtest.Config{Tick: time.Hour, NoWork: true})
	var mu sync.Mutex
	taken := map[uuid.UUID]bool{}
	fives := 0
	storm(8, func(i int) {
		on, req := r, claim.Request{Count: 5}
		if i%2 == 0 {
			on = other
		}
		if i >= 6 {
			req.Count = 1
		}
		res, err := w.Claim(t, on, "a", req)
		mu.Lock()
		defer mu.Unlock()
		switch {
		case !assert.NoError(t, err):
		case res.Workspace == nil:
			assert.NotEmpty(t, res.Reason)
		case req.Count == 1:
			assert.False(t, taken[res.Workspace.ID])
			taken[res.Workspace.ID] = true
		default:
			fives++
			assert.Len(t, res.Together, 5)
			for _, g := range res.Together {
				assert.False(t, taken[g.Workspace.ID], "given twice")
				taken[g.Workspace.ID] = true
			}
		}
	})
	require.Equal(t, 4, fives, "four fives fit beside two ones, and the fifth never does")
	require.Len(t, taken, 22)
	require.Equal(t, len(taken), w.Count(t, "a", "claimed"))
	require.Equal(t, len(taken), count(t, w, "claims WHERE state = 'bound'"))
	require.Zero(t, count(t, w, "claims WHERE state = 'waiting'"), "who missed left nothing")

	res, err := w.Claim(t, r, "a", claim.Request{Count: 5})
	require.NoError(t, err)
	require.Contains(t, res.Reason, "1 of 5 ready", "what is there is told")
}

// A claim by count that got too few without waiting comes to wait with none of them. If it kept them, and one claim waited
// for those while it waited for what that one is at, PostgreSQL would end the one that asked last.
func TestTogether_waitsWithNothing(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w, r := still(t, 3)
	rows, err := w.Store.Pool.Query(ctx, `SELECT id FROM workspaces WHERE state = 'ready' AND preset_id = $1
		ORDER BY ready_at, id`, w.Preset(t, "a"))
	require.NoError(t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(t, err)
	require.Len(t, ids, 3)
	others := make([]pgx.Tx, len(ids)) // each is at one of the workspaces
	for i, id := range ids {
		tx, err := w.Store.Pool.Begin(ctx)
		require.NoError(t, err)
		defer func() { _ = tx.Rollback(ctx) }()
		_, err = tx.Exec(ctx, "UPDATE workspaces SET expires_at = now() WHERE id = $1", id)
		require.NoError(t, err)
		others[i] = tx
	}
	// waiting is how many have waited for so long that they do not look for a deadlock any more.
	waiting := func(n int) {
		t.Helper()
		coderdtest.Eventually(t, "who waits", func() bool {
			return count(t, w, `pg_locks l JOIN pg_stat_activity a USING (pid) WHERE a.datname = current_database()
				AND NOT l.granted AND clock_timestamp() - l.waitstart > 1.5 * current_setting('deadlock_timeout')::interval`) == n
		})
	}

	one := send(ctx, t, w, r, "a", claim.Request{})
	waiting(1)
	require.NoError(t, others[2].Rollback(ctx)) // the third is free
	three := send(ctx, t, w, r, "a", claim.Request{Count: 3})
	waiting(2)
	require.NoError(t, others[0].Commit(ctx)) // the one goes on to the second, the three wait for it at the first
	coderdtest.Eventually(t, "who waits for the second", func() bool {
		return count(t, w, fmt.Sprintf("pg_locks WHERE NOT granted AND %d = ANY (pg_blocking_pids(pid))", others[1].Conn().PgConn().PID())) > 0
	})
	waiting(2)
	require.NoError(t, others[1].Commit(ctx)) // it goes on to the third

	got := <-one
	require.NoError(t, got.err)
	require.Equal(t, ids[2], got.res.Workspace.ID)
	got = <-three
	require.NoError(t, got.err)
	require.Nil(t, got.res.Workspace)
	require.Contains(t, got.res.Reason, "no prebuild is ready")
}

// A retry with the same key is given the same workspaces; with another count it is refused.
func TestTogether_key(t *testing.T) {
	t.Parallel()
	w, r := still(t, 6)
	var mu sync.Mutex
	seen := map[uuid.UUID]int{}
	storm(4, func(int) {
		res, err := w.Claim(t, r, "a", claim.Request{Count: 3, Key: "k"})
		mu.Lock()
		defer mu.Unlock()
		if assert.NoError(t, err) && assert.Len(t, res.Together, 3, res.Reason) {
			for _, g := range res.Together {
				seen[g.Workspace.ID]++
			}
		}
	})
	require.Len(t, seen, 3)
	require.Equal(t, 3, w.Count(t, "a", "claimed"))
	_, err := w.Claim(t, r, "a", claim.Request{Key: "k"})
	require.ErrorIs(t, err, claim.ErrCountChanged)
	require.Equal(t, 3, w.Count(t, "a", "claimed"))

	exec(t, w, "UPDATE templates SET deprecated_at = now()") // so that it claims nothing new
	res, err := w.Claim(t, r, "a", claim.Request{Count: 3, Key: "k"})
	require.NoError(t, err)
	require.Len(t, res.Together, 3, res.Reason)
	for _, g := range res.Together {
		require.Contains(t, seen, g.Workspace.ID)
	}
}

// Several that wait are bound together, when passes have built enough; those that may not wait so long have none.
func TestTogether_waits(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{ReadyLatency: sim.Latency{Min: 10 * time.Millisecond, Max: 200 * time.Millisecond}})
	r := w.Start(t, coderdtest.Config{})
	w.Pool(t, "a", 1, 1)
	res, err := w.Claim(t, r, "a", claim.Request{Mode: database.ClaimModePrefer, Count: 4, Wait: time.Minute})
	require.NoError(t, err)
	require.Len(t, res.Together, 4, res.Reason)
	require.Equal(t, database.ClaimOutcomeWaited, res.Outcome)

	pauseAll(t, w)
	res, err = w.Claim(t, r, "a", claim.Request{Mode: database.ClaimModePrefer, Count: 4, Wait: 300 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeMiss, res.Outcome)
	require.Contains(t, res.Reason, "no 4 workspaces were ready at once within 300ms")
	require.Equal(t, 4, w.Count(t, "a", "claimed"), "none was taken for it")
	require.Zero(t, count(t, w, "claims WHERE state = 'waiting'"))
}

// Claims that wait together are a miss when their time is up, and look no more then.
func TestTogether_timeUp(t *testing.T) {
	t.Parallel()
	w, r := still(t, 1)
	clock := quartz.NewMock(t)
	r.Claims.Clock = clock
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	looks := clock.Trap().TimerReset("claim", "look")
	defer looks.Close()
	answered := send(ctx, t, w, r, "a", claim.Request{Mode: database.ClaimModePrefer, Count: 2, Wait: 1500 * time.Millisecond})
	for _, pause := range []time.Duration{time.Second, 500 * time.Millisecond} {
		look := looks.MustWait(ctx)
		require.Equal(t, pause, look.Duration)
		look.MustRelease(ctx)
		clock.Advance(pause).MustWait(ctx)
	}
	coderdtest.Eventually(t, "the answer", func() bool { return len(answered) == 1 })
	got := <-answered
	require.NoError(t, got.err)
	require.Equal(t, database.ClaimOutcomeMiss, got.res.Outcome)
	require.Contains(t, got.res.Reason, "no 2 workspaces were ready at once within 1.5s")
	require.Equal(t, 1, w.Warm(t, "a"))
}

// A claim that bypasses the pool is given a workspace that was planned after it, though warm ones are there; one that may
// go cold only where none is.
func TestBypass_isBuiltForTheClaim(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{})
	r.Reconciler.Nudge(w.Pool(t, "a", 2, 1)...)
	coderdtest.Eventually(t, "pool of 2", func() bool { return w.Warm(t, "a") == 2 })
	var since time.Time
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT clock_timestamp()").Scan(&since))

	res, err := w.Claim(t, r, "a", claim.Request{Mode: database.ClaimModeBypass, Wait: time.Minute})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeCold, res.Outcome, res.Reason)
	require.True(t, res.Workspace.CreatedAt.After(since), "it was there before")
	require.Equal(t, 2, w.Warm(t, "a"), "the pool is as it was")

	res, err = w.Claim(t, r, "a", claim.Request{Mode: database.ClaimModePrefer, Cold: true, Wait: time.Minute})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeHit, res.Outcome, "cold is for where none is warm")

	r.Reconciler.Nudge(w.Pool(t, "a", 0, 1)...)
	// What the pool was being refilled with may become ready after the others have gone.
	coderdtest.Eventually(t, "none is warm, or about to be", func() bool {
		return count(t, w, "workspaces WHERE state NOT IN ('claimed', 'deleted')") == 0
	})
	res, err = w.Claim(t, r, "a", claim.Request{Mode: database.ClaimModePrefer, Cold: true, Wait: time.Minute})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeCold, res.Outcome, res.Reason)
}

// Several who bypass a pool that shrinks at the same time are all served: what is built for them is not let go of in
// place of the surplus, and who waits for any is not kept waiting behind them.
func TestBypass_whilePoolShrinks(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{ReadyLatency: sim.Latency{Min: 20 * time.Millisecond, Max: 100 * time.Millisecond}})
	r := w.Start(t, coderdtest.Config{})
	r.Reconciler.Nudge(w.Pool(t, "a", 5, 1)...)
	coderdtest.Eventually(t, "pool of 5", func() bool { return w.Warm(t, "a") == 5 })
	shrunk := w.Pool(t, "a", 2, 1) // not told yet
	storm(4, func(i int) {
		if i == 0 {
			r.Reconciler.Nudge(shrunk...)
			return
		}
		res, err := w.Claim(t, r, "a", claim.Request{Mode: database.ClaimModeBypass, Wait: time.Minute})
		if assert.NoError(t, err) {
			assert.Equal(t, database.ClaimOutcomeCold, res.Outcome, res.Reason)
		}
	})
	coderdtest.Eventually(t, "pool of 2", func() bool {
		return w.Warm(t, "a") == 2 && count(t, w, "workspaces WHERE state NOT IN ('claimed', 'deleted')") == 2
	})
	require.Equal(t, 3, w.Count(t, "a", "claimed"))
}

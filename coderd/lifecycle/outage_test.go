package lifecycle_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/replica"
)

// TestC8_failuresTogetherCountOnce: ten creates that fail at once, for good, are one round of failures and one cause, and
// do not reach the hard limit; the rest of the pool is built when the fault is over.
func TestC8_failuresTogetherCountOnce(t *testing.T) {
	t.Parallel()
	const n = 10
	ctx := context.Background()
	w, p := newWorld(t)
	var failed, asked atomic.Int32
	all := make(chan struct{}) // closed when all have been asked for
	p.create = func(context.Context, provider.CreateRequest) error {
		if asked.Add(1) == n {
			close(all)
		}
		<-all
		if failed.Add(1) <= n {
			return provider.Permanent(xerrors.Errorf("machine %d: credentials expired", failed.Load()))
		}
		return nil
	}
	r := w.Start(t, coderdtest.Config{Tick: time.Second})
	r.Reconciler.Nudge(w.Pool(t, "a", n, 1)...)
	var streak, permanent int
	coderdtest.Eventually(t, "all to fail", func() bool { return failed.Load() >= n && w.Count(t, "a", "deleted") >= n })
	var count int
	var cause string
	require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT count, cause FROM preset_failure_causes").Scan(&count, &cause))
	require.Equal(t, n, count)
	require.Contains(t, cause, "machine N: credentials expired")
	err := w.Store.Pool.QueryRow(ctx, "SELECT streak, permanent FROM preset_failures").Scan(&streak, &permanent)
	if err == nil { // else creates began again and succeeded by now
		require.Equal(t, 1, streak)
		require.Equal(t, 1, permanent)
	}
	coderdtest.Eventually(t, "the pool is built after the backoff", settled(t, w, n))
}

// TestC8_outageDoesNotReachTheHardLimit: failures that a retry may mend, in many rounds, only space creates; the same ones
// stop them when they have gone on for long, and permanent ones at the third round.
func TestC8_outageDoesNotReachTheHardLimit(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w, _ := newWorld(t)
	templates := w.Pool(t, "a", 2, 1)
	for _, tc := range []struct {
		streak, permanent int
		since, last       string
		built             bool
	}{
		{9, 2, "14 minutes", "6 minutes", true},
		{9, 0, "16 minutes", "6 minutes", true}, // ended before it had gone on for so long
		{9, 0, "30 minutes", "6 minutes", false},
		{3, 3, "7 minutes", "6 minutes", false},
	} {
		_, err := w.Store.Pool.Exec(ctx, `DELETE FROM workspaces`)
		require.NoError(t, err)
		_, err = w.Store.Pool.Exec(ctx, `INSERT INTO preset_failures (preset_id, pool_key, streak, permanent, last_error, first_at,
				last_at)
			SELECT id, pool_key, $1, $2, 'no answer', now() - $3::interval, now() - $4::interval FROM presets
			ON CONFLICT (preset_id, pool_key) DO UPDATE SET streak = excluded.streak, permanent = excluded.permanent,
				first_at = excluded.first_at, last_at = excluded.last_at`, tc.streak, tc.permanent, tc.since, tc.last)
		require.NoError(t, err)
		r := w.Start(t, coderdtest.Config{Tick: time.Hour, NoWork: true})
		r.Reconciler.Nudge(templates...)
		var ledger string
		coderdtest.Eventually(t, "a decision", func() bool {
			if w.Count(t, "a", "provisioning") == 2 {
				return tc.built
			}
			require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT coalesce(max(ledger::text), '') FROM preset_status").Scan(&ledger))
			return !tc.built && strings.Contains(ledger, "hard limit")
		})
		r.Stop()
	}
}

// An intent that cannot be carried out stops no other, and is tried again after a pause, not at once.
func TestIntents_fail(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	w, _ := newWorld(t)
	clock, pauses := newStepped(t, "lifecycle", "intents")
	log := &messages{}
	r := w.Start(t, coderdtest.Config{Deaf: true, NoPass: true, Parts: func(p *replica.Parts) { p.Clock, p.Log = clock, slog.Make(log) }})
	t.Cleanup(pauses.Close)
	paused(t, pauses)
	for _, sql := range []string{
		"CREATE FUNCTION kept() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'the disk is full'; END $$",
		"CREATE TRIGGER kept BEFORE DELETE ON intents FOR EACH ROW WHEN (OLD.reason <> 'the last') EXECUTE FUNCTION kept()",
		`INSERT INTO intents (workspace_id, incarnation, kind, reason, created_at)
			SELECT gen_random_uuid(), 1, 'drain', CASE n WHEN 50 THEN 'the last' ELSE 'stuck' END, now() + n * interval '1 second'
			FROM generate_series(1, 50) n`, // as many as are read at a time
	} {
		_, err := w.Store.Pool.Exec(ctx, sql)
		require.NoError(t, err)
	}
	for range 2 {
		r.Worker.Wake()
		paused(t, pauses)
	}
	var left int
	require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT count(*) FROM intents WHERE reason = 'stuck'").Scan(&left))
	require.Equal(t, 49, left)
	require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT count(*) FROM intents").Scan(&left))
	require.Equal(t, 49, left, "what can be carried out is")
	require.Equal(t, 2*49, log.counted()["carry out an intent"], "each is tried once before each pause")
}

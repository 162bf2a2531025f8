package claim_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database"
)

// rounds is how often the storms run: a few times in CI, PREWARM_ROUNDS times for `make test-long`.
func rounds(few int) int {
	if n, err := strconv.Atoi(os.Getenv("PREWARM_ROUNDS")); err == nil && n > 0 {
		return n
	}
	return few
}

// I1: 32 claimers at once on a pool of 20, over three replicas: 20 distinct workspaces and 12 clear misses.
func TestClaim_exactUnderConcurrency(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	// Nothing refills while the storm lasts: the tick is far, and the pool is stocked by hand.
	var replicas []*coderdtest.Replica
	for range 3 {
		replicas = append(replicas, w.Start(t, coderdtest.Config{Tick: time.Hour, NoWork: true}))
	}
	worker := w.Start(t, coderdtest.Config{Tick: time.Hour})
	for round := range rounds(10) {
		version := round%2 + 1
		worker.Reconciler.Nudge(w.Pool(t, "a", 20, version)...)
		// Of this version, and nothing else that is, or could still become, ready: an intent that is not carried out yet
		// leaves its workspace claimable.
		coderdtest.Eventually(t, "pool of 20", func() bool {
			return w.Warm(t, "a") == 20 && count(t, w, "workspaces WHERE state NOT IN ('claimed', 'deleted')") == 20 &&
				count(t, w, "intents") == 0
		})
		pauseAll(t, w) // passes may run, but create nothing

		var mu sync.Mutex
		taken := map[uuid.UUID]int{}
		misses := 0
		storm(32, func(i int) {
			res, err := w.Claim(t, replicas[i%3], "a", claim.Request{})
			mu.Lock()
			defer mu.Unlock()
			if !assert.NoError(t, err) {
				return
			}
			if res.Outcome == database.ClaimOutcomeMiss {
				misses++
				assert.NotEmpty(t, res.Reason)
				return
			}
			taken[res.Workspace.ID]++
		})
		require.Len(t, taken, 20, "round %d", round)
		require.Equal(t, 12, misses, "round %d", round)
		require.Zero(t, w.Warm(t, "a"))
		for id := range taken {
			_, err := worker.Writer.Release(context.Background(), worker.Writer.System("test"), id)
			require.NoError(t, err)
		}
		resumeAll(t, w)
	}
}

func pauseAll(t *testing.T, w *coderdtest.World) {
	_, err := w.Store.Pool.Exec(context.Background(), `INSERT INTO pauses (id, scope, target, reason, created_at, created_by)
		VALUES ($1, 'global', '', 'storm', now(), $2)`, uuid.New(), w.Owner)
	require.NoError(t, err)
}

func resumeAll(t *testing.T, w *coderdtest.World) {
	_, err := w.Store.Pool.Exec(context.Background(), "DELETE FROM pauses")
	require.NoError(t, err)
}

func storm(n int, do func(i int)) {
	var start, done sync.WaitGroup
	start.Add(1)
	for i := range n {
		done.Add(1)
		go func() { defer done.Done(); start.Wait(); do(i) }()
	}
	start.Done()
	done.Wait()
}

func TestKey_sameWorkspaceForEveryRetry(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{})
	other := w.Start(t, coderdtest.Config{})
	r.Reconciler.Nudge(w.Pool(t, "a", 5, 1)...)
	r.Reconciler.Nudge(w.Pool(t, "b", 1, 1)...)
	coderdtest.Eventually(t, "pools", func() bool {
		return w.Count(t, "a", "ready") == 5 && w.Count(t, "b", "ready") == 1
	})

	var mu sync.Mutex
	seen := map[uuid.UUID]int{}
	storm(16, func(i int) {
		on := r
		if i%2 == 0 {
			on = other
		}
		res, err := w.Claim(t, on, "a", claim.Request{Key: "build-1"})
		mu.Lock()
		defer mu.Unlock()
		if assert.NoError(t, err) && assert.NotNil(t, res.Workspace) {
			seen[res.Workspace.ID]++
			assert.Equal(t, database.ClaimOutcomeHit, res.Outcome)
		}
	})
	require.Len(t, seen, 1)
	require.Equal(t, 1, w.Count(t, "a", "claimed"))

	r.Reconciler.Nudge(w.Pool(t, "a", 0, 1)...)
	coderdtest.Eventually(t, "no other is left", func() bool { return w.Count(t, "a", "ready") == 0 })
	res, err := w.Claim(t, r, "a", claim.Request{Key: "build-1"})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeHit, res.Outcome, "the answer of a retry does not depend on what is warm now")

	_, err = w.Claim(t, r, "b", claim.Request{Key: "build-1"})
	require.ErrorIs(t, err, claim.ErrKeyReused)
	require.Equal(t, 0, w.Count(t, "b", "claimed"))
}

func TestKey_missMayTryAgain(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{})
	w.Pool(t, "a", 0, 1)
	res, err := w.Claim(t, r, "a", claim.Request{Key: "k"})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeMiss, res.Outcome)
	r.Reconciler.Nudge(w.Pool(t, "a", 1, 1)...)
	coderdtest.Eventually(t, "pool", func() bool { return w.Count(t, "a", "ready") == 1 })
	res, err = w.Claim(t, r, "a", claim.Request{Key: "k"})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeHit, res.Outcome)
}

// Waiters are served in the order in which they came, each exactly once, whichever replicas they wait on.
func TestWait_firstComeFirstServed(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{ReadyLatency: sim.Latency{Min: 20 * time.Millisecond, Max: 60 * time.Millisecond}})
	w.Pool(t, "a", 0, 1)
	replicas := []*coderdtest.Replica{w.Start(t, coderdtest.Config{}), w.Start(t, coderdtest.Config{})}
	pauseAll(t, w) // nothing is built while the line forms
	const n = 24
	taken := make(chan uuid.UUID, n)
	for i := range n {
		go func() { // the first waits for as long as it takes the whole line to form
			res, err := w.Claim(t, replicas[i%2], "a", claim.Request{Mode: database.ClaimModePrefer, Wait: 5 * time.Minute})
			if assert.NoError(t, err) && assert.NotNil(t, res.Workspace, res.Reason) {
				taken <- res.Workspace.ID
				return
			}
			taken <- uuid.Nil
		}()
		coderdtest.Eventually(t, "next in line", func() bool { return count(t, w, "claims WHERE state = 'waiting'") == i+1 })
	}
	resumeAll(t, w)
	replicas[0].Reconciler.Missed()
	distinct := map[uuid.UUID]bool{}
	for range n {
		distinct[<-taken] = true
	}
	require.Len(t, distinct, n)
	// By the order of the rows of history, since the stamps are those of when each binding statement began to wait.
	require.Zero(t, count(t, w, `(SELECT c.created_at, h.id FROM claims c JOIN workspace_history h
		ON h.workspace_id = c.workspace_id AND h.to_state = 'claimed') x JOIN
		(SELECT c.created_at, h.id FROM claims c JOIN workspace_history h
		ON h.workspace_id = c.workspace_id AND h.to_state = 'claimed') y ON x.created_at < y.created_at AND x.id > y.id`))
}

func count(t *testing.T, w *coderdtest.World, from string) (n int) {
	t.Helper()
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT count(*) FROM "+from).Scan(&n))
	return n
}

func TestWait_timeUp(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{ReadyLatency: sim.Latency{Min: time.Hour, Max: time.Hour}})
	r := w.Start(t, coderdtest.Config{})
	w.Pool(t, "a", 0, 1)
	res, err := w.Claim(t, r, "a", claim.Request{Mode: database.ClaimModePrefer, Wait: 300 * time.Millisecond})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeMiss, res.Outcome)
	require.Contains(t, res.Reason, "within 300ms")
	coderdtest.Eventually(t, "what was built for it goes", func() bool { return w.Count(t, "a", "starting", "provisioning") == 0 })
}

// Who may not wait has its answer at once: in mode require whatever the wait, and in mode prefer without one.
func TestWait_not(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{NoWork: true, NoPass: true})
	w.Pool(t, "a", 0, 1)
	for _, count := range []int{1, 2} {
		for _, req := range []claim.Request{
			{Mode: database.ClaimModeRequire, Wait: time.Millisecond},
			{Mode: database.ClaimModePrefer},
			{Mode: database.ClaimModePrefer, Wait: -time.Second},
		} {
			req.Count = count
			res, err := w.Claim(t, r, "a", req)
			require.NoError(t, err)
			require.Equal(t, database.ClaimOutcomeMiss, res.Outcome)
			require.NotContains(t, res.Reason, "within", "%d, %s, %s", count, req.Mode, req.Wait)
		}
	}
}

// A client that goes away leaves the line, and whatever it was given in that moment is given back.
func TestWait_clientGoesAway(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{ReadyLatency: sim.Latency{Min: 0, Max: 30 * time.Millisecond}})
	w.Pool(t, "a", 0, 1)
	r := w.Start(t, coderdtest.Config{})
	preset := w.Preset(t, "a")
	var told atomic.Int64 // of a workspace: these stay
	storm(max(24, rounds(0)), func(i int) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*5*time.Millisecond)
		defer cancel()
		res, err := r.Claims.Claim(ctx, claim.Request{
			UserID: w.Owner, OrganizationID: uuid.Nil, PresetID: preset, Mode: database.ClaimModePrefer, Wait: time.Minute,
			Source: fmt.Sprint(i),
		})
		if err == nil && res.Workspace != nil {
			told.Add(1)
		}
	})
	coderdtest.Eventually(t, "nobody waits, and nothing is built for nobody", func() bool {
		return w.Count(t, "a", "provisioning", "starting", "ready", "draining", "deleting") == 0 &&
			w.Count(t, "a", "claimed") == int(told.Load()) && count(t, w, "claims WHERE state = 'waiting'") == 0
	})
}

// What an apply made outdated is never handed out, however the claims and the apply interleave.
func TestClaim_neverOutdated(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{})
	for round := range rounds(8) {
		version := round%2 + 1
		r.Reconciler.Nudge(w.Pool(t, "a", 8, version)...)
		coderdtest.Eventually(t, "pool", func() bool { return w.Warm(t, "a") >= 8 })
		var applied time.Time
		var mu sync.Mutex
		storm(9, func(i int) {
			if i == 0 {
				w.Pool(t, "a", 8, 3-version)
				mu.Lock()
				defer mu.Unlock()
				require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT clock_timestamp()").Scan(&applied))
				return
			}
			_, err := w.Claim(t, r, "a", claim.Request{})
			assert.NoError(t, err)
		})
		var wrong int
		require.NoError(t, w.Store.Pool.QueryRow(context.Background(), `SELECT count(*) FROM workspaces w
			JOIN templates t ON t.id = w.template_id JOIN template_versions v ON v.id = t.active_version_id
			WHERE w.state = 'claimed' AND w.claimed_at > $1 AND w.template_version_id <> v.id`, applied).Scan(&wrong))
		require.Zero(t, wrong, "round %d", round)
	}
}

// A key stays good for a retry after its client went away and its place in line ran out.
func TestKey_afterItsWaitRanOut(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{})
	w.Pool(t, "a", 0, 1)
	pauseAll(t, w)
	ctx, leave := context.WithCancel(context.Background())
	preset := w.Preset(t, "a")
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = r.Claims.Claim(ctx, claim.Request{
			UserID: w.Owner, PresetID: preset, Mode: database.ClaimModePrefer, Wait: time.Minute, Key: "k",
		})
	}()
	coderdtest.Eventually(t, "in line", func() bool { return count(t, w, "claims WHERE state = 'waiting'") == 1 })
	leave()
	<-gone
	_, err := w.Store.Pool.Exec(context.Background(), "UPDATE claims SET deadline_at = now() - interval '1 second'")
	require.NoError(t, err)
	resumeAll(t, w)
	r.Reconciler.Nudge(w.Pool(t, "a", 2, 1)...)
	coderdtest.Eventually(t, "pool", func() bool { return w.Warm(t, "a") == 2 })
	res, err := w.Claim(t, r, "a", claim.Request{Mode: database.ClaimModePrefer, Wait: time.Minute, Key: "k"})
	require.NoError(t, err)
	require.NotNil(t, res.Workspace, res.Reason)
}

// A claim keeps its parameters while it holds a workspace. A miss, or a retry of an earlier claim, leaves none behind.
func TestClaim_parameters(t *testing.T) {
	t.Parallel()
	w, r := still(t, 1)
	req := claim.Request{
		Key: "k", Parameters: map[string]string{"branch": "main"}, Secrets: map[string]string{"token": "a secret of tests"},
	}
	hit, err := w.Claim(t, r, "a", req)
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeHit, hit.Outcome)
	kept := func() (ids []uuid.UUID) {
		t.Helper()
		require.NoError(t, w.Store.Pool.QueryRow(t.Context(), `SELECT coalesce(array_agg(claim_id), '{}') FROM claim_parameters
			WHERE parameters->>'branch' = 'main' AND secrets->>'token' = 'a secret of tests'`).Scan(&ids))
		require.Equal(t, len(ids), count(t, w, "claim_parameters"))
		return ids
	}
	require.Equal(t, []uuid.UUID{hit.ClaimID}, kept())

	again, err := w.Claim(t, r, "a", req)
	require.NoError(t, err)
	require.Equal(t, hit.ClaimID, again.ClaimID)
	require.Equal(t, []uuid.UUID{hit.ClaimID}, kept(), "the retry stored nothing more")

	for _, req := range []claim.Request{{Parameters: req.Parameters, Secrets: req.Secrets}, {Parameters: req.Parameters}, {Secrets: req.Secrets}} {
		miss, err := w.Claim(t, r, "a", req)
		require.NoError(t, err)
		require.Equal(t, database.ClaimOutcomeMiss, miss.Outcome)
		require.Equal(t, []uuid.UUID{hit.ClaimID}, kept(), "nothing of the miss is left")
	}
}

// The answer to a claim with wait_ready says what went wrong with the handover of its own workspace, and of no other.
func TestReady_handover(t *testing.T) {
	t.Parallel()
	w, worker := still(t, 3)
	worker.Stop()
	r := w.Start(t, coderdtest.Config{NoWork: true, NoPass: true})
	exec(t, w, `UPDATE template_versions SET spec = spec || '{"apply_on_claim": "before"}'`)
	const fault = "its plan would replace the machine"
	for _, c := range []struct{ of, incarnation, where, fault string }{
		{"its own", "incarnation", "id = ANY ($1)", fault},
		{"that of an incarnation before", "incarnation - 1", "id = ANY ($1)", ""},
		{"that of another workspace", "incarnation", "id <> ALL ($1)", ""},
	} {
		exec(t, w, "DELETE FROM jobs WHERE kind = 'handover'")
		r.Claims.HandOver = func(_ context.Context, ids ...uuid.UUID) error {
			exec(t, w, "UPDATE workspaces SET fault = $2 WHERE id = ANY ($1)", ids, fault)
			exec(t, w, `INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, state, due_at, created_at, finished_at)
				SELECT gen_random_uuid(), id, `+c.incarnation+`, 'handover', provider, 'failed', now(), now(), now()
				FROM workspaces WHERE `+c.where, ids)
			return nil
		}
		res, err := w.Claim(t, r, "a", claim.Request{WaitReady: time.Minute})
		require.NoError(t, err)
		require.NotNil(t, res.Workspace, res.Reason)
		require.Equal(t, c.fault, res.Fault, c.of)
	}
}

// A claim with wait_ready that ends in an error gives its workspace back, unless its caller asks again with the key.
func TestReady_error(t *testing.T) {
	t.Parallel()
	w, r := still(t, 3) // one for each claim, should the second be taken back before it is asked for again
	failure := errors.New("no database")
	r.Claims.HandOver = func(context.Context, ...uuid.UUID) error { return failure }
	_, err := w.Claim(t, r, "a", claim.Request{WaitReady: time.Minute})
	require.ErrorIs(t, err, failure)
	coderdtest.Eventually(t, "it is given back", func() bool { return w.Count(t, "a", "claimed") == 0 })

	req := claim.Request{Key: "k", WaitReady: time.Minute}
	_, err = w.Claim(t, r, "a", req)
	require.ErrorIs(t, err, failure)
	failure = nil
	res, err := w.Claim(t, r, "a", req)
	require.NoError(t, err)
	require.NotNil(t, res.Workspace, res.Reason)
	require.Equal(t, 1, w.Count(t, "a", "claimed"))
}

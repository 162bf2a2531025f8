package lifecycle_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// told is a provider that does as the test tells it, before or instead of asking the cloud.
type told struct {
	provider.Provider
	mu     sync.Mutex
	create func(ctx context.Context, req provider.CreateRequest) error
	ready  func() (provider.Readiness, bool)
	delete func(ctx context.Context) error
}

func (p *told) tell(f func()) { p.mu.Lock(); defer p.mu.Unlock(); f() }

func (p *told) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	p.mu.Lock()
	f := p.create
	p.mu.Unlock()
	if f != nil {
		if err := f(ctx, req); err != nil {
			return provider.Instance{}, err
		}
	}
	return p.Provider.Create(ctx, req)
}

func (p *told) Ready(ctx context.Context, ref provider.Ref) (provider.Readiness, error) {
	p.mu.Lock()
	f := p.ready
	p.mu.Unlock()
	if f != nil {
		if r, ok := f(); ok {
			return r, nil
		}
	}
	return p.Provider.Ready(ctx, ref)
}

func (p *told) Delete(ctx context.Context, ref provider.Ref) error {
	p.mu.Lock()
	f := p.delete
	p.mu.Unlock()
	if f != nil {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return p.Provider.Delete(ctx, ref)
}

func newWorld(t *testing.T) (*coderdtest.World, *told) {
	t.Helper()
	p := &told{}
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(cloud provider.Provider) provider.Provider {
		p.Provider = cloud
		return p
	})
	return w, p
}

// settled says that the pool of n is full and nothing else is at the provider or under way.
func settled(t *testing.T, w *coderdtest.World, n int) func() bool {
	return func() bool {
		have, err := w.Cloud.Count()
		require.NoError(t, err)
		return have == n && w.Count(t, "a", "ready") == n && active(t, w) == 0
	}
}

func active(t *testing.T, w *coderdtest.World) (n int) {
	t.Helper()
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(),
		"SELECT count(*) FROM jobs WHERE state IN ('pending', 'running')").Scan(&n))
	return n
}

func TestCreate_retryableErrorIsRetried(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t)
	var calls atomic.Int32
	p.create = func(context.Context, provider.CreateRequest) error {
		if calls.Add(1) <= 2 {
			return xerrors.New("out of capacity")
		}
		return nil
	}
	w.Pool(t, "a", 1, 1)
	w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "ready after retries", settled(t, w, 1))
	require.EqualValues(t, 3, calls.Load())
	require.Zero(t, w.Count(t, "a", "deleted"), "the same workspace was tried again")
}

// C8: three workspaces in a row that fail for good stop creation, and say so; a new version starts anew.
func TestCreate_permanentErrorsReachTheHardLimit(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t)
	var calls atomic.Int32
	p.create = func(context.Context, provider.CreateRequest) error {
		calls.Add(1)
		return provider.Permanent(xerrors.New("setup ended with exit status 128; its last output:\nCloning into 'x' 7...\nfatal: no such branch 7\n"))
	}
	templates := w.Pool(t, "a", 1, 1)
	r := w.Start(t, coderdtest.Config{Tick: time.Second})
	r.Reconciler.Nudge(templates...)
	coderdtest.Eventually(t, "hard limit", func() bool { return w.Count(t, "a", "deleted") == 3 && active(t, w) == 0 })
	var streak int
	var cause, ledger string
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), `SELECT f.streak, f.last_error, s.ledger::text
		FROM preset_failures f JOIN preset_status s USING (preset_id)`).Scan(&streak, &cause, &ledger))
	require.Equal(t, 3, streak)
	require.Regexp(t, `^fatal: no such branch 7 \(create workspace prebuild-\w+: setup ended with exit status 128\)$`, cause)
	var grouped, last string
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT cause, last_fault FROM preset_failure_causes").
		Scan(&grouped, &last))
	require.Equal(t, "fatal: no such branch N (create workspace PREBUILD: setup ended with exit status N)", grouped)
	require.Contains(t, last, "Cloning into 'x' 7...\nfatal: no such branch 7")
	coderdtest.Eventually(t, "the ledger says so", func() bool {
		require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT ledger::text FROM preset_status").Scan(&ledger))
		return strings.Contains(ledger, "hard limit")
	})
	require.EqualValues(t, 3, calls.Load())

	p.tell(func() { p.create = nil })
	r.Reconciler.Nudge(w.Pool(t, "a", 1, 2)...)
	coderdtest.Eventually(t, "the new version is built", settled(t, w, 1))
}

// messages is a log of which only the messages are remembered.
type messages struct {
	mu  sync.Mutex
	all []string
}

func (m *messages) LogEntry(_ context.Context, e slog.SinkEntry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, e.Message)
}

func (*messages) Sync() {}

// counted is how often each message was written.
func (m *messages) counted() map[string]int {
	m.mu.Lock()
	defer m.mu.Unlock()
	counts := map[string]int{}
	for _, message := range m.all {
		counts[message]++
	}
	return counts
}

// The log has one line for a workspace that was created, and none about a job that is done again.
func TestCreate_isLoggedOnce(t *testing.T) {
	t.Parallel()
	w, _ := newWorld(t)
	w.Pool(t, "a", 1, 1)
	log := &messages{}
	r := w.Start(t, coderdtest.Config{Parts: func(p *replica.Parts) { p.Log = slog.Make(log) }})
	coderdtest.Eventually(t, "pool", settled(t, w, 1))
	r.Stop() // all that it logs is there then
	lines := log.counted()
	require.Equal(t, 1, lines["workspace created"], lines)
	require.Zero(t, lines["job is left to the end of its lease"], lines)
}

func TestProbe_failureIsReplaced(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t)
	var failed atomic.Bool
	p.ready = func() (provider.Readiness, bool) {
		if failed.CompareAndSwap(false, true) {
			return provider.Readiness{Failed: true, Detail: "setup exited with 1"}, true
		}
		return provider.Readiness{}, false
	}
	w.Pool(t, "a", 1, 1)
	w.Start(t, coderdtest.Config{Tick: time.Second})
	coderdtest.Eventually(t, "replaced", settled(t, w, 1))
	var fault string
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(),
		"SELECT fault FROM workspaces WHERE state = 'deleted'").Scan(&fault))
	require.Equal(t, "setup exited with 1", fault)
	var streaks int
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT count(*) FROM preset_failures").Scan(&streaks))
	require.Zero(t, streaks, "readiness ends the streak")
}

func TestProbe_bootTimeout(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t)
	p.ready = func() (provider.Readiness, bool) { return provider.Readiness{Detail: "waiting for port 22"}, true }
	w.Apply(t, `
templates:
  - name: a
    provider: sim
    boot_timeout: 1s
    spec: {create_latency: 0s}
    presets: [{name: default, prebuilds: {instances: 1}}]
`)
	w.Start(t, coderdtest.Config{Tick: time.Second})
	coderdtest.Eventually(t, "given up", func() bool { return w.Count(t, "a", "deleted") > 0 })
	var fault string
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(),
		"SELECT fault FROM workspaces WHERE state = 'deleted' LIMIT 1").Scan(&fault))
	require.Equal(t, "boot timeout: waiting for port 22", fault)
	var drained string // what is no runner was never to be registered
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), `SELECT DISTINCT reason FROM workspace_history
		WHERE from_state = 'draining' AND to_state = 'deleting'`).Scan(&drained))
	require.Equal(t, "no runner to unregister", drained)
}

func TestDelete_repeatsUntilItIsGone_orForced(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t)
	w.Pool(t, "a", 1, 1)
	r := w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "pool", settled(t, w, 1))
	res, err := w.Claim(t, r, "a", claim.Request{})
	require.NoError(t, err)
	coderdtest.Eventually(t, "refilled", func() bool { return w.Count(t, "a", "ready") == 1 && active(t, w) == 0 })

	p.tell(func() { p.delete = func(context.Context) error { return xerrors.New("credentials expired") } })
	ctx := context.Background()
	by := workspaces.Actor{UserID: w.Owner, Source: "test"}
	_, err = r.Writer.Release(ctx, by, res.Workspace.ID)
	require.NoError(t, err)
	var cause string
	coderdtest.Eventually(t, "retried with its cause", func() bool {
		err := w.Store.Pool.QueryRow(ctx, "SELECT last_error FROM jobs WHERE kind = 'delete' AND failures > 0").Scan(&cause)
		return err == nil
	})
	require.Regexp(t, `^delete workspace prebuild-\w+: credentials expired$`, cause)

	_, err = r.Writer.Delete(ctx, by, res.Workspace.ID, false)
	require.ErrorIs(t, err, workspaces.ErrGone)
	_, err = r.Writer.Delete(ctx, by, res.Workspace.ID, true)
	require.NoError(t, err)
	r.Worker.Wake()
	coderdtest.Eventually(t, "forced", func() bool { return w.Count(t, "a", "deleted") == 1 })
}

// A create that is no longer wanted while it runs is cancelled, and what it makes all the same is removed (I4).
func TestCancel_whileCreating(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t)
	entered, proceed := make(chan struct{}, 8), make(chan struct{})
	p.create = func(context.Context, provider.CreateRequest) error {
		entered <- struct{}{}
		<-proceed // deaf to its context, as some providers are
		return nil
	}
	w.Pool(t, "a", 2, 1)
	r := w.Start(t, coderdtest.Config{Lease: 2 * time.Second})
	<-entered
	<-entered
	r.Reconciler.Nudge(w.Pool(t, "a", 0, 1)...)
	coderdtest.Eventually(t, "cancelled", func() bool { return w.Count(t, "a", "deleting") == 2 })
	close(proceed)
	coderdtest.Eventually(t, "nothing left", settled(t, w, 0))
	require.Equal(t, 2, w.Count(t, "a", "deleted"))
}

// I5: a worker that loses its lease changes nothing, and another finishes the job. No attempt failed and none had a token, so
// neither worker deletes anything.
func TestLease_lostToAnother(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t)
	entered, proceed := make(chan struct{}, 1), make(chan struct{})
	var first atomic.Bool
	var deletes atomic.Int32
	p.delete = func(context.Context) error {
		deletes.Add(1)
		return nil
	}
	p.create = func(context.Context, provider.CreateRequest) error {
		if first.CompareAndSwap(false, true) {
			entered <- struct{}{}
			<-proceed
		}
		return nil
	}
	w.Pool(t, "a", 1, 1)
	w.Start(t, coderdtest.Config{})
	<-entered
	// Its heartbeats do not come through: the lease ends, and is taken over.
	_, err := w.Store.Pool.Exec(context.Background(),
		"UPDATE jobs SET due_at = now(), attempt = attempt + 1 WHERE state = 'running'")
	require.NoError(t, err)
	coderdtest.Eventually(t, "built by the second", func() bool { return w.Count(t, "a", "ready") == 1 })
	close(proceed)
	coderdtest.Eventually(t, "still one", settled(t, w, 1))
	dup, err := w.Cloud.Duplicates()
	require.NoError(t, err)
	require.Empty(t, dup)
	var transitions int
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT count(*) FROM workspace_history").Scan(&transitions))
	require.Equal(t, 3, transitions, "provisioning, starting, ready: each once")
	require.Zero(t, deletes.Load())
}

// G6: a replica that stops returns what it can't finish, and another takes it at once.
func TestStop_returnsLeases(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t)
	entered := make(chan struct{}, 1)
	var first atomic.Bool
	p.create = func(ctx context.Context, _ provider.CreateRequest) error {
		if first.CompareAndSwap(false, true) {
			entered <- struct{}{}
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	w.Pool(t, "a", 1, 1)
	r := w.Start(t, coderdtest.Config{Grace: 100 * time.Millisecond, Lease: time.Hour})
	<-entered
	r.Stop()
	var state database.JobState
	var failures int
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT state, failures FROM jobs").Scan(&state, &failures))
	require.Equal(t, database.JobStatePending, state)
	require.Zero(t, failures, "to be stopped is nobody's failure")
	w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "built by the next", settled(t, w, 1))
}

// I2: an intent never takes a workspace that was claimed first.
func TestIntent_claimWins(t *testing.T) {
	t.Parallel()
	w, _ := newWorld(t)
	w.Pool(t, "a", 1, 1)
	r := w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "pool", settled(t, w, 1))
	r.Stop()
	passes := w.Start(t, coderdtest.Config{NoWork: true})
	passes.Reconciler.Nudge(w.Pool(t, "a", 0, 1)...)
	coderdtest.Eventually(t, "an intent", func() bool { return intents(t, w) == 1 })
	res, err := w.Claim(t, passes, "a", claim.Request{})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeHit, res.Outcome)

	w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "the intent is dropped", func() bool { return intents(t, w) == 0 })
	require.Equal(t, 1, w.Count(t, "a", "claimed"))
	require.Zero(t, active(t, w))
}

func intents(t *testing.T, w *coderdtest.World) (n int) {
	t.Helper()
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT count(*) FROM intents").Scan(&n))
	return n
}

// A provider that never answers is ended by the call's own bound, since a lease is extended for as long as anybody lives.
func TestCreate_hungCallIsEnded(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t)
	var calls atomic.Int32
	p.create = func(ctx context.Context, _ provider.CreateRequest) error {
		if calls.Add(1) == 1 {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	w.Apply(t, `
templates:
  - name: a
    provider: sim
    boot_timeout: 1s
    spec: {create_latency: 0s}
    presets: [{name: default, prebuilds: {instances: 1}}]
`)
	w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "tried again", settled(t, w, 1))
}

// What a script prints is not always text; the failure counts all the same.
func TestFailure_unprintable(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t)
	var failed atomic.Bool
	p.ready = func() (provider.Readiness, bool) {
		if failed.CompareAndSwap(false, true) {
			return provider.Readiness{Failed: true, Detail: "setup said \x00 and \xe9"}, true
		}
		return provider.Readiness{}, false
	}
	w.Pool(t, "a", 1, 1)
	w.Start(t, coderdtest.Config{Tick: time.Second, Lease: time.Hour})
	coderdtest.Eventually(t, "given up and replaced", settled(t, w, 1))
	var fault string
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(),
		"SELECT fault FROM workspaces WHERE state = 'deleted'").Scan(&fault))
	require.Equal(t, "setup said \uFFFD and \uFFFD", fault)
}

// G5: force interrupts a delete that hangs, and ends it whatever the provider says.
func TestForce_interruptsARunningDelete(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t)
	w.Pool(t, "a", 1, 1)
	r := w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "pool", settled(t, w, 1))
	res, err := w.Claim(t, r, "a", claim.Request{})
	require.NoError(t, err)

	hung := make(chan struct{})
	var first atomic.Bool
	p.tell(func() {
		p.delete = func(ctx context.Context) error {
			if first.CompareAndSwap(false, true) {
				close(hung)
				<-ctx.Done()
				return ctx.Err()
			}
			return xerrors.New("credentials expired")
		}
	})
	by := workspaces.Actor{UserID: w.Owner, Source: "test"}
	_, err = r.Writer.Release(context.Background(), by, res.Workspace.ID)
	require.NoError(t, err)
	<-hung
	_, err = r.Writer.Delete(context.Background(), by, res.Workspace.ID, true)
	require.NoError(t, err)
	r.Worker.Wake()
	coderdtest.Eventually(t, "forced", func() bool { return w.Count(t, "a", "deleted") == 1 })
}

// I4: what a create makes after its workspace was deleted, such as that of a replica that froze and woke, is removed by
// whoever made it.
func TestCreate_afterItsWorkspaceWasDeleted(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t)
	entered, proceed := make(chan struct{}), make(chan struct{})
	var first atomic.Bool
	p.create = func(_ context.Context, req provider.CreateRequest) error {
		if !first.CompareAndSwap(false, true) {
			return nil
		}
		close(entered)
		<-proceed
		_, err := w.Cloud.Create(context.Background(), req)
		return err
	}
	w.Pool(t, "a", 1, 1)
	r := w.Start(t, coderdtest.Config{})
	<-entered
	_, err := w.Store.Pool.Exec(context.Background(), "UPDATE jobs SET due_at = now(), attempt = attempt + 1 WHERE state = 'running'")
	require.NoError(t, err)
	coderdtest.Eventually(t, "built by the second", func() bool { return w.Count(t, "a", "ready") == 1 })
	r.Reconciler.Nudge(w.Pool(t, "a", 0, 1)...)
	coderdtest.Eventually(t, "deleted", settled(t, w, 0))
	close(proceed)
	made := func() int { // that there were two of it, one after the other, says that the late one came
		history, err := w.Cloud.History()
		require.NoError(t, err)
		return len(history)
	}
	coderdtest.Eventually(t, "made late, and removed", func() bool { return made() == 4 && settled(t, w, 0)() })
}

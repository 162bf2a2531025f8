package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/claimdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// powered is a cloud whose stops and starts can be made to fail, or to wait.
type powered struct {
	provider.Provider
	power  provider.Stopper
	failed atomic.Bool // starts, for good
	broken atomic.Bool // stops, for now
	starts atomic.Int32
	late   atomic.Pointer[func(context.Context)] // before the next stop, which then heeds its context no more

	marks atomic.Int32
	held  atomic.Pointer[chan struct{}] // marks end with it; nil: at once
}

func (p *powered) Mark(ctx context.Context, _ provider.Ref, _ provider.Claim) error {
	p.marks.Add(1)
	if held := p.held.Load(); held != nil {
		select {
		case <-*held:
		case <-ctx.Done():
		}
	}
	return errors.New("busy")
}

func (p *powered) Start(ctx context.Context, ref provider.Ref) error {
	p.starts.Add(1)
	if p.failed.Load() {
		return provider.Permanent(errors.New("no host has room for it"))
	}
	return p.power.Start(ctx, ref)
}

func (p *powered) Stop(ctx context.Context, ref provider.Ref) error {
	if p.broken.Load() {
		return errors.New("busy")
	}
	if late := p.late.Swap(nil); late != nil {
		(*late)(ctx)
		ctx = context.WithoutCancel(ctx)
	}
	return p.power.Stop(ctx, ref)
}

func newPowered(t *testing.T, behavior sim.Behavior) (*coderdtest.World, *powered) {
	t.Helper()
	p := &powered{}
	var once sync.Once // each apply asks for the provider again, while workers use it
	w := coderdtest.NewWorldWith(t, behavior, func(cloud provider.Provider) provider.Provider {
		once.Do(func() { p.Provider, p.power = cloud, cloud.(provider.Stopper) }) //nolint:forcetypeassert // sim is one
		return p
	})
	return w, p
}

func tier(t *testing.T, w *coderdtest.World, instances int, standby string) {
	t.Helper()
	w.Apply(t, fmt.Sprintf(`
templates:
  - name: go
    provider: sim
    spec: {}
    presets: [{name: default, prebuilds: {instances: %d, standby: %s}}]
`, instances, standby))
}

// atRest says whether so many run and so many are stopped in fact, with no work left.
func atRest(t *testing.T, w *coderdtest.World, running, stopped int) bool {
	t.Helper()
	if w.Count(t, "go", "ready") != running || w.Count(t, "go", "standby") != stopped {
		return false
	}
	var work int
	require.NoError(t, w.Store.Pool.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM jobs WHERE state IN ('pending', 'running'))
		+ (SELECT count(*) FROM intents) + (SELECT count(*) FROM standby_moves)`).Scan(&work))
	all, err := w.Cloud.All()
	require.NoError(t, err)
	down := 0
	for _, r := range all {
		if r.Stopped {
			down++
		}
	}
	return work == 0 && down == stopped
}

// usable waits until a claimed workspace has no job any more, and returns its fault.
func usable(t *testing.T, w *coderdtest.World, id uuid.UUID) (fault string) {
	t.Helper()
	coderdtest.Eventually(t, "its start is over", func() bool {
		start, err := claimdb.New(w.Store).StartOf(t.Context(), id)
		require.NoError(t, err)
		fault = start.Fault
		return !start.Starting
	})
	return fault
}

// A pool of five keeps two running. Claims take these first, then the stopped, which are started for them; behind them the
// tiers fill again.
func TestC17_standbyTier(t *testing.T) {
	t.Parallel()
	w, p := newPowered(t, sim.Behavior{})
	tier(t, w, 5, "{running: 40%}")
	r := w.Start(t, coderdtest.Config{Tick: 200 * time.Millisecond})
	coderdtest.Eventually(t, "two run and three are stopped", func() bool { return atRest(t, w, 2, 3) })

	hit, err := w.Claim(t, r, "go", claim.Request{})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeHit, hit.Outcome)
	require.False(t, hit.Standby, "a running one first")
	coderdtest.Eventually(t, "both tiers are full again", func() bool { return atRest(t, w, 2, 3) })
	require.Positive(t, p.starts.Load(), "a stopped one took the place of the claimed")

	tier(t, w, 2, "stopped")
	r.Reconciler.Nudge()
	coderdtest.Eventually(t, "all are stopped", func() bool { return atRest(t, w, 0, 2) })
	one, err := w.Claim(t, r, "go", claim.Request{Key: "k"})
	require.NoError(t, err)
	require.Equal(t, database.ClaimOutcomeHit, one.Outcome)
	require.True(t, one.Standby)
	require.True(t, one.Starting, "the answer does not wait for the start")
	require.Empty(t, usable(t, w, one.Workspace.ID))
	again, err := w.Claim(t, r, "go", claim.Request{Key: "k"})
	require.NoError(t, err)
	require.Equal(t, one.Workspace.ID, again.Workspace.ID)
	require.True(t, again.Standby)
	require.False(t, again.Starting)
	inst, err := w.Cloud.Get(t.Context(), provider.Ref{Name: one.Workspace.Name})
	require.NoError(t, err)
	require.Equal(t, provider.StatusRunning, inst.Status)

	tier(t, w, 2, "running")
	coderdtest.Eventually(t, "without a tier all run", func() bool { return atRest(t, w, 2, 0) })
}

// A start that fails leaves the workspace to its claim, with the fault (I2); and one of the pool is replaced.
func TestC17_failedStart(t *testing.T) {
	t.Parallel()
	w, p := newPowered(t, sim.Behavior{})
	tier(t, w, 2, "stopped")
	r := w.Start(t, coderdtest.Config{Tick: 200 * time.Millisecond})
	coderdtest.Eventually(t, "all are stopped", func() bool { return atRest(t, w, 0, 2) })
	p.failed.Store(true)
	res, err := w.Claim(t, r, "go", claim.Request{})
	require.NoError(t, err)
	require.True(t, res.Standby)
	require.Regexp(t, `^start: start workspace prebuild-\w+: no host has room for it$`, usable(t, w, res.Workspace.ID))
	now, err := viewsdb.New(w.Store).WorkspaceState(t.Context(), res.Workspace.ID)
	require.NoError(t, err)
	require.Equal(t, database.WorkspaceStateClaimed, now.State)
	require.Equal(t, res.ClaimID, now.ClaimID.UUID)
	coderdtest.Eventually(t, "the pool is full again", func() bool { return w.Count(t, "go", "standby") == 2 })

	tier(t, w, 2, "running")
	coderdtest.Eventually(t, "what could not be started is replaced by one that runs", func() bool {
		return w.Warm(t, "go") == 2 && w.Count(t, "go", "standby") == 0
	})
}

// A claimed workspace is shown as one before it is started, also where its provider cannot show it.
func TestC17_markedBeforeStart(t *testing.T) {
	t.Parallel()
	w, p := newPowered(t, sim.Behavior{})
	tier(t, w, 1, "stopped")
	r := w.Start(t, coderdtest.Config{Tick: 200 * time.Millisecond})
	coderdtest.Eventually(t, "it is stopped", func() bool { return atRest(t, w, 0, 1) })
	starts, held := p.starts.Load(), make(chan struct{})
	p.held.Store(&held)
	res, err := w.Claim(t, r, "go", claim.Request{})
	require.NoError(t, err)
	require.True(t, res.Standby)
	coderdtest.Eventually(t, "its start has it marked", func() bool { return p.marks.Load() == 1 })
	require.Equal(t, starts, p.starts.Load())
	close(held)
	require.Empty(t, usable(t, w, res.Workspace.ID))
}

// A stop that fails is tried again, and who claims meanwhile gets the workspace, which then is not stopped.
func TestC17_claimBeatsStop(t *testing.T) {
	t.Parallel()
	w, p := newPowered(t, sim.Behavior{})
	p.broken.Store(true)
	tier(t, w, 1, "stopped")
	r := w.Start(t, coderdtest.Config{Tick: 200 * time.Millisecond})
	coderdtest.Eventually(t, "a stop has failed", func() bool {
		var failures int
		require.NoError(t, w.Store.Pool.QueryRow(t.Context(), "SELECT coalesce(max(failures), 0) FROM jobs WHERE kind = 'stop'").Scan(&failures))
		return failures > 0
	})
	res, err := w.Claim(t, r, "go", claim.Request{})
	require.NoError(t, err)
	require.True(t, res.Standby)
	p.broken.Store(false)
	require.Empty(t, usable(t, w, res.Workspace.ID))
	coderdtest.Eventually(t, "another is stopped in its place", func() bool { return atRest(t, w, 0, 1) })
	inst, err := w.Cloud.Get(t.Context(), provider.Ref{Name: res.Workspace.Name})
	require.NoError(t, err)
	require.Equal(t, provider.StatusRunning, inst.Status, "what is claimed is not stopped")
}

// Stopping and starting one prolongs its life by nothing, and a start says nothing about creates (C8, C9).
func TestC17_standbyKeepsTTLAndStreak(t *testing.T) {
	t.Parallel()
	w, _ := newPowered(t, sim.Behavior{})
	w.Apply(t, `
templates:
  - name: go
    provider: sim
    spec: {}
    presets: [{name: default, prebuilds: {instances: 1, ttl: 8h, standby: stopped}}]
`)
	w.Start(t, coderdtest.Config{Tick: 200 * time.Millisecond})
	coderdtest.Eventually(t, "it is stopped", func() bool { return atRest(t, w, 0, 1) })
	expires := func() (at time.Time) {
		require.NoError(t, w.Store.Pool.QueryRow(t.Context(), "SELECT expires_at FROM workspaces").Scan(&at))
		return at
	}
	before := expires()
	_, err := w.Store.Pool.Exec(t.Context(), `INSERT INTO preset_failures (preset_id, pool_key, streak, last_error, last_at)
		SELECT id, pool_key, 1, 'no room', now() FROM presets`)
	require.NoError(t, err)
	w.Apply(t, `
templates:
  - name: go
    provider: sim
    spec: {}
    presets: [{name: default, prebuilds: {instances: 1, ttl: 8h}}]
`)
	coderdtest.Eventually(t, "it runs", func() bool { return atRest(t, w, 1, 0) })
	require.Equal(t, before, expires())
	var streak int
	require.NoError(t, w.Store.Pool.QueryRow(t.Context(), "SELECT streak FROM preset_failures").Scan(&streak))
	require.Equal(t, 1, streak)
}

// Many claims at once out of both tiers: each gets a workspace of its own, running ones first, and no more than there are.
func TestC17_claimsAreExact(t *testing.T) {
	t.Parallel()
	w, _ := newPowered(t, sim.Behavior{})
	tier(t, w, 8, "{running: 3}")
	r := w.Start(t, coderdtest.Config{Tick: 200 * time.Millisecond})
	coderdtest.Eventually(t, "three run and five are stopped", func() bool { return atRest(t, w, 3, 5) })
	r.Stop()
	quiet := w.Start(t, coderdtest.Config{NoPass: true, NoWork: true})
	const claims = 20
	results := make(chan claim.Result, claims)
	for range claims {
		go func() {
			res, err := w.Claim(t, quiet, "go", claim.Request{})
			if err != nil {
				res.Reason = err.Error()
			}
			results <- res
		}()
	}
	seen, stopped, missed := map[uuid.UUID]bool{}, 0, 0
	for range claims {
		res := <-results
		if res.Workspace == nil {
			require.Equal(t, database.ClaimOutcomeMiss, res.Outcome, res.Reason)
			missed++
			continue
		}
		require.False(t, seen[res.Workspace.ID], "claimed twice")
		seen[res.Workspace.ID] = true
		if res.Standby {
			stopped++
		}
	}
	require.Len(t, seen, 8)
	require.Equal(t, 5, stopped)
	require.Equal(t, claims-8, missed)
	var jobs int
	require.NoError(t, w.Store.Pool.QueryRow(t.Context(), "SELECT count(*) FROM jobs WHERE kind = 'start' AND state = 'pending' AND priority = $1",
		workspaces.PriorityPerson).Scan(&jobs))
	require.Equal(t, 5, jobs)
}

// Claims go on while a breaker is open, and one out of standby is of no use before its workspace was started (S3).
func TestC17_startsBehindABreaker(t *testing.T) {
	t.Parallel()
	w, _ := newPowered(t, sim.Behavior{})
	tier(t, w, 1, "stopped")
	r := w.Start(t, coderdtest.Config{Tick: 200 * time.Millisecond})
	coderdtest.Eventually(t, "one is stopped", func() bool { return atRest(t, w, 0, 1) })
	_, err := w.Store.Pool.Exec(t.Context(), `
		INSERT INTO inventories (provider, leased_until, due_at, full_at, opened_at, reason)
		VALUES ('sim', 'epoch', prewarm_now() + interval '1 day', prewarm_now(), prewarm_now(), 'the listing failed')
		ON CONFLICT (provider, site) DO UPDATE
		SET opened_at = excluded.opened_at, reason = excluded.reason, due_at = excluded.due_at`)
	require.NoError(t, err)

	res, err := w.Claim(t, r, "go", claim.Request{})
	require.NoError(t, err)
	require.True(t, res.Standby)
	require.Empty(t, usable(t, w, res.Workspace.ID))
	inst, err := w.Cloud.Get(t.Context(), provider.Ref{Name: res.Workspace.Name})
	require.NoError(t, err)
	require.Equal(t, provider.StatusRunning, inst.Status)
	require.Zero(t, w.Count(t, "go", "provisioning"), "nothing is created meanwhile")
}

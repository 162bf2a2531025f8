package lifecycle_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
)

// slow is a cloud that does as the test tells it, also between making something and saying so.
type slow struct {
	*told
	answer func()
}

func (p *slow) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	inst, err := p.told.Create(ctx, req)
	if err == nil {
		p.answer()
	}
	return inst, err
}

// A delete before a retry goes on after its lease was lost, and takes what the next attempt has just made. That attempt does
// not know yet, so its end is waited for. Then the workspace is drained, and another takes its place.
func TestRetry_deletesWhatTheNextAttemptMade(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := &slow{told: &told{}}
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(cloud provider.Provider) provider.Provider {
		p.Provider = cloud
		return p
	})
	await := func(c <-chan struct{}) { // or the end of the test, which then waits for nobody
		select {
		case <-c:
		case <-ctx.Done():
		}
	}
	var failed, deletes, answers atomic.Bool
	p.create = func(context.Context, provider.CreateRequest) error {
		if failed.CompareAndSwap(false, true) {
			return xerrors.New("out of capacity")
		}
		return nil
	}
	deleting, late := make(chan struct{}), make(chan struct{})
	p.delete = func(context.Context) error { // deaf to its context, as some providers are
		if !deletes.CompareAndSwap(false, true) {
			return nil
		}
		close(deleting)
		await(late)
		all, err := w.Cloud.All()
		if err != nil || len(all) != 1 {
			return xerrors.Errorf("there are %d: %w", len(all), err)
		}
		return w.Cloud.Delete(ctx, provider.Ref{Name: all[0].Name})
	}
	made, finish := make(chan struct{}), make(chan struct{})
	p.answer = func() {
		if answers.CompareAndSwap(false, true) {
			close(made)
			await(finish)
		}
	}
	drained := make(chan struct{}) // no probe finds that it is gone before
	p.ready = func() (provider.Readiness, bool) { await(drained); return provider.Readiness{}, false }

	clock, sleeps := newStepped(t, "lifecycle", "sleep")
	w.Pool(t, "a", 1, 1)
	r := w.Start(t, coderdtest.Config{Parts: func(p *replica.Parts) { p.Clock = clock }})
	t.Cleanup(sleeps.Close)
	await(deleting)
	_, err := w.Store.Pool.Exec(ctx, "UPDATE jobs SET due_at = now(), attempt = attempt + 1 WHERE state = 'running'")
	require.NoError(t, err)
	r.Worker.Wake()
	await(made)
	close(late)
	paused(t, sleeps) // while the next attempt is under way
	close(finish)
	coderdtest.Eventually(t, "the next attempt is over", func() bool { return w.Count(t, "a", "starting") == 1 })
	clock.mock.AdvanceNext()
	coderdtest.Eventually(t, "it is drained", func() bool {
		var n int
		require.NoError(t, w.Store.Pool.QueryRow(ctx, `SELECT count(*) FROM workspace_history WHERE to_state = 'draining'
			AND reason = 'its resource was deleted by a worker that had lost its lease'`).Scan(&n))
		return n == 1
	})
	close(drained)
	coderdtest.Eventually(t, "another takes its place", settled(t, w, 1))
	require.Equal(t, 1, w.Count(t, "a", "deleted"))
}

// A stop goes on after its lease was lost, and stops what was started meanwhile. What was claimed is started again for its
// owner, and what is of the pool is replaced.
func TestStop_stopsWhatWasStarted(t *testing.T) {
	t.Parallel()
	for _, claimed := range []bool{true, false} {
		t.Run(map[bool]string{true: "claimed", false: "of the pool"}[claimed], func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			w, p := newPowered(t, sim.Behavior{})
			stopping, proceed := make(chan struct{}), make(chan struct{})
			p.late.Store(new(func(lease context.Context) {
				close(stopping)
				<-lease.Done()
				select {
				case <-proceed:
				case <-ctx.Done():
				}
			}))
			tier(t, w, 1, "stopped")
			r := w.Start(t, coderdtest.Config{Tick: 200 * time.Millisecond, Lease: 2 * time.Second})
			<-stopping
			const reason = "it was stopped by a worker that had lost its lease"
			seen := func() (from, to string) { // what came of it, empty before
				require.NoError(t, w.Store.Pool.QueryRow(ctx, `SELECT coalesce(max(from_state::text), ''), coalesce(max(to_state::text), '')
					FROM workspace_history WHERE reason = $1`, reason).Scan(&from, &to))
				return from, to
			}
			if !claimed {
				tier(t, w, 1, "running")
				coderdtest.Eventually(t, "it runs", func() bool { return w.Count(t, "go", "ready") == 1 })
				close(proceed)
				coderdtest.Eventually(t, "it is drained", func() bool { from, to := seen(); return from == "ready" && to == "draining" })
				coderdtest.Eventually(t, "another takes its place", func() bool { return atRest(t, w, 1, 0) })
				return
			}
			res, err := w.Claim(t, r, "go", claim.Request{})
			require.NoError(t, err)
			require.True(t, res.Standby)
			require.Empty(t, usable(t, w, res.Workspace.ID))
			close(proceed)
			coderdtest.Eventually(t, "it is started again", func() bool { from, to := seen(); return from == "claimed" && to == "claimed" })
			require.Empty(t, usable(t, w, res.Workspace.ID))
			inst, err := w.Cloud.Get(ctx, provider.Ref{Name: res.Workspace.Name})
			require.NoError(t, err)
			require.Equal(t, provider.StatusRunning, inst.Status)
		})
	}
}

package lifecycle_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// resetting is a cloud whose resets the test hears of first.
type resetting struct {
	*told
	mu    sync.Mutex
	reset func(ctx context.Context) error
	seen  []provider.CreateRequest
}

func (p *resetting) Reset(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	p.mu.Lock()
	p.seen = append(p.seen, req)
	f := p.reset
	p.mu.Unlock()
	if f != nil {
		if err := f(ctx); err != nil {
			return provider.Instance{}, err
		}
	}
	resetter, _ := provider.As[provider.Resetter](p.Provider)
	return resetter.Reset(ctx, req)
}

func (p *resetting) requests() []provider.CreateRequest {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]provider.CreateRequest{}, p.seen...)
}

func newResetting(t *testing.T) (*coderdtest.World, *resetting) {
	t.Helper()
	p := &resetting{told: &told{}}
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(cloud provider.Provider) provider.Provider {
		p.Provider = cloud
		return p
	})
	return w, p
}

const reusing = `
templates:
  - name: a
    provider: sim
    reuse: true
    max_uses: 3
    keep_failures: {maximum: 5}
    spec: {create_latency: 0s}
    presets: [{name: default, prebuilds: {instances: 1}}]
`

// onePool is a pool of one that is used again, and a replica that makes no passes: what is claimed is not made up for, so
// that there is room for it when it comes back.
func onePool(t *testing.T, w *coderdtest.World) *coderdtest.Replica {
	t.Helper()
	w.Apply(t, reusing)
	passes := w.Start(t, coderdtest.Config{})
	coderdtest.Eventually(t, "pool", settled(t, w, 1))
	passes.Stop()
	return w.Start(t, coderdtest.Config{NoPass: true})
}

// A workspace serves one claim after another, each in its own incarnation, until it has served enough. Nobody is ever told
// of another's by a key that was used before (I1).
func TestReset_servesAgain(t *testing.T) {
	t.Parallel()
	w, p := newResetting(t)
	r := onePool(t, w)
	by := workspaces.Actor{UserID: w.Owner, Source: "test", Reason: "released"}
	var id uuid.UUID
	for use := int32(1); use <= 3; use++ {
		res, err := w.Claim(t, r, "a", claim.Request{Key: fmt.Sprintf("key-%d", use)})
		require.NoError(t, err)
		require.NotNil(t, res.Workspace, res.Reason)
		if use == 1 {
			id = res.Workspace.ID
		}
		require.Equal(t, id, res.Workspace.ID, "the same is claimed again")
		require.Equal(t, use, res.Workspace.Incarnation)
		_, err = r.Writer.Release(context.Background(), by, id)
		require.NoError(t, err)
		r.Worker.Wake()
		if use < 3 {
			coderdtest.Eventually(t, "ready again", func() bool { return stateOf(t, w, id) == "ready" })
		}
	}
	coderdtest.Eventually(t, "after its last use it goes", func() bool { return stateOf(t, w, id) == "deleted" })
	requests := p.requests()
	require.Len(t, requests, 2)
	require.Equal(t, []int32{2, 3}, []int32{requests[0].Tags.Incarnation, requests[1].Tags.Incarnation})

	res, err := w.Claim(t, r, "a", claim.Request{Key: "key-1"})
	require.NoError(t, err)
	require.Nil(t, res.Workspace, "the key's workspace was another's since")
	require.Contains(t, res.Reason, "used again")
}

func stateOf(t *testing.T, w *coderdtest.World, id uuid.UUID) (state string) {
	t.Helper()
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), "SELECT state FROM workspaces WHERE id = $1", id).Scan(&state))
	return state
}

// A reset is tried again, and given up after as many attempts as a create; the workspace is deleted then, is never kept,
// and is no failed create.
func TestReset_fails(t *testing.T) {
	t.Parallel()
	w, p := newResetting(t)
	r := onePool(t, w)
	ctx := context.Background()
	res, err := w.Claim(t, r, "a", claim.Request{})
	require.NoError(t, err)
	p.mu.Lock()
	p.reset = func(context.Context) error { return xerrors.New("disk on fire") }
	p.mu.Unlock()
	_, err = r.Writer.Release(ctx, workspaces.Actor{UserID: w.Owner, Source: "test", Reason: "released"}, res.Workspace.ID)
	require.NoError(t, err)
	coderdtest.Eventually(t, "given up and deleted", func() bool {
		_, err := w.Store.Pool.Exec(ctx, "UPDATE jobs SET due_at = now() WHERE state = 'pending' AND kind = 'reset'")
		require.NoError(t, err)
		r.Worker.Wake()
		return stateOf(t, w, res.Workspace.ID) == "deleted"
	})
	require.Len(t, p.requests(), 5)
	var fault string
	var streaks int
	require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT fault, (SELECT count(*) FROM preset_failures) FROM workspaces WHERE id = $1",
		res.Workspace.ID).Scan(&fault, &streaks))
	require.Regexp(t, `^reset: reset workspace prebuild-\w+: disk on fire$`, fault)
	require.Zero(t, streaks)
}

// issuing is a resetting cloud whose instances all get tokens.
type issuing struct{ *resetting }

func (issuing) TakesTokens() {}

// G7: what a reset was about to hand over is a token that is refused once the reset is another worker's. That one does not
// reset again: the workspace is deleted, with the cause.
func TestReset_interrupted(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	p := &resetting{told: &told{}}
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(cloud provider.Provider) provider.Provider {
		p.Provider = cloud
		return issuing{p}
	})
	hung := make(chan struct{})
	var first atomic.Bool
	p.reset = func(ctx context.Context) error {
		if first.CompareAndSwap(false, true) {
			close(hung)
			<-ctx.Done()
		}
		return ctx.Err()
	}
	onePool(t, w).Stop()
	r := w.Start(t, coderdtest.Config{NoPass: true, Grace: 1})
	res, err := w.Claim(t, r, "a", claim.Request{})
	require.NoError(t, err)
	require.NotNil(t, res.Workspace, res.Reason)
	id := res.Workspace.ID
	_, err = r.Writer.Release(ctx, workspaces.Actor{UserID: w.Owner, Source: "test", Reason: "released"}, id)
	require.NoError(t, err)
	r.Worker.Wake()
	<-hung
	r.Stop()
	r = w.Start(t, coderdtest.Config{NoPass: true})
	coderdtest.Eventually(t, "it is deleted", func() bool { return stateOf(t, w, id) == "deleted" })
	require.Len(t, p.requests(), 1)
	var fault string
	require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT fault FROM workspaces WHERE id = $1", id).Scan(&fault))
	require.Equal(t, "reset: reset was interrupted: its replica went away", fault)
	r.Stop()
	require.Equal(t, map[string]float64{"failed": 1}, r.Counted(t, "prewarm_workspace_resets_total", "outcome"))
}

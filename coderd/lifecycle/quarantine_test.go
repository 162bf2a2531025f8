package lifecycle_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// talkative is a cloud that keeps the output of its workspaces.
type talkative struct{ *told }

func (talkative) Logs(context.Context, provider.Ref, bool) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader(strings.Repeat("fetching layer\n", 2000) + "no space\x00 left")), nil
}

const keeping = `
templates:
  - name: a
    provider: sim
    keep_failures: {maximum: 1, ttl: 1h}
    spec: {create_latency: 0s}
    presets: [{name: default, prebuilds: {instances: 1}}]
`

// A failure is kept with its fault and the end of its output, and the pool goes on without it; of those after it, no more
// are kept than the template says. It ends when its time is over.
func TestQuarantine_withEvidence(t *testing.T) {
	t.Parallel()
	p := &told{}
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(cloud provider.Provider) provider.Provider {
		p.Provider = cloud
		return talkative{p}
	})
	p.ready = func() (provider.Readiness, bool) {
		return provider.Readiness{Failed: true, Detail: "setup exited with 1"}, true
	}
	templates := w.Apply(t, keeping)
	r := w.Start(t, coderdtest.Config{Tick: time.Second})
	r.Reconciler.Nudge(templates...)
	coderdtest.Eventually(t, "one is kept, the next is not", func() bool {
		hasten(t, w)
		r.Reconciler.Nudge(templates...)
		return w.Count(t, "a", "quarantined") == 1 && w.Count(t, "a", "deleted") >= 1
	})
	p.tell(func() { p.ready = nil })
	ctx := context.Background()
	_, err := w.Store.Pool.Exec(ctx, "DELETE FROM preset_failures") // should the limit have been reached by now
	require.NoError(t, err)
	coderdtest.Eventually(t, "the pool is full beside it", func() bool {
		r.Reconciler.Nudge(templates...)
		n, err := w.Cloud.Count()
		require.NoError(t, err)
		return w.Count(t, "a", "ready") == 1 && n == 2 && active(t, w) == 0
	})
	var fault, log string
	require.NoError(t, w.Store.Pool.QueryRow(ctx, `SELECT w.fault, l.log FROM workspaces w
		JOIN failure_logs l ON l.workspace_id = w.id WHERE w.state = 'quarantined'`).Scan(&fault, &log))
	require.Equal(t, "setup exited with 1", fault)
	require.True(t, strings.HasPrefix(log, "fetching layer\n"), "from the beginning of a line")
	require.True(t, strings.HasSuffix(log, "fetching layer\nno space\uFFFD left"), "to its end")
	require.LessOrEqual(t, len(log), 20<<10)

	_, err = w.Store.Pool.Exec(ctx, "UPDATE workspaces SET expires_at = now() WHERE state = 'quarantined'")
	require.NoError(t, err)
	coderdtest.Eventually(t, "it goes when its time is over", settled(t, w, 1))
}

// A person mends what was wrong and has the failure tried anew: created, where nothing was ever made of it.
func TestQuarantine_retried(t *testing.T) {
	t.Parallel()
	w, p := newWorld(t)
	p.create = func(context.Context, provider.CreateRequest) error {
		return provider.Permanent(xerrors.New("no such image"))
	}
	templates := w.Apply(t, strings.Replace(keeping, "maximum: 1", "maximum: 9", 1))
	r := w.Start(t, coderdtest.Config{Tick: time.Second})
	ctx := context.Background()
	coderdtest.Eventually(t, "all that fail until the hard limit are kept", func() bool {
		hasten(t, w)
		r.Reconciler.Nudge(templates...)
		return w.Count(t, "a", "quarantined") == 3
	})
	p.tell(func() { p.create = nil })
	var first workspaces.Lease
	require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT id FROM workspaces ORDER BY created_at LIMIT 1").Scan(&first.WorkspaceID))
	by := workspaces.Actor{UserID: w.Owner, Source: "test", Reason: "mended"}
	_, err := r.Writer.Retry(ctx, by, first.WorkspaceID)
	require.NoError(t, err)
	r.Worker.Wake()
	coderdtest.Eventually(t, "it is ready", func() bool { return w.Count(t, "a", "ready") == 1 && active(t, w) == 0 })
	var state string
	var streaks int
	require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT state, (SELECT count(*) FROM preset_failures) FROM workspaces WHERE id = $1",
		first.WorkspaceID).Scan(&state, &streaks))
	require.Equal(t, "ready", state)
	require.Zero(t, streaks, "which ends the streak")
	var second workspaces.Lease
	require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT id FROM workspaces WHERE state = 'quarantined' LIMIT 1").Scan(&second.WorkspaceID))
	_, err = r.Writer.Retry(ctx, by, second.WorkspaceID)
	require.ErrorContains(t, err, "its pool has 1 of the 1 that it should have")
	_, err = r.Writer.Delete(ctx, by, second.WorkspaceID, false)
	require.NoError(t, err)
	r.Worker.Wake()
	coderdtest.Eventually(t, "a person ends the keeping", func() bool {
		return w.Count(t, "a", "deleted") == 1 && w.Count(t, "a", "quarantined") == 1
	})
}

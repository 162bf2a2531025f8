package lifecycle_test

import (
	"context"
	"io"
	"sync/atomic"
	"testing"

	"cdr.dev/slog"
	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
)

// read is a talkative cloud that counts how often its output is read.
type read struct {
	talkative
	times atomic.Int32
}

func (r *read) Logs(ctx context.Context, ref provider.Ref, follow bool) (io.ReadCloser, error) {
	r.times.Add(1)
	return r.talkative.Logs(ctx, ref, follow)
}

// A workspace that failed is counted and logged, once. Its job is over: no line says that it is done again. Where its template
// keeps no failures, nobody reads its output.
func TestFailure_isCountedOnce(t *testing.T) {
	t.Parallel()
	p := &told{}
	output := &read{talkative: talkative{p}}
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(cloud provider.Provider) provider.Provider {
		p.Provider = cloud
		return output
	})
	var failed atomic.Bool
	p.create = func(context.Context, provider.CreateRequest) error {
		if failed.CompareAndSwap(false, true) {
			return provider.Permanent(xerrors.New("no such image"))
		}
		return nil
	}
	w.Pool(t, "a", 1, 1)
	log := &messages{}
	r := w.Start(t, coderdtest.Config{Parts: func(p *replica.Parts) { p.Log = slog.Make(log) }})
	coderdtest.Eventually(t, "it failed, and is deleted", func() bool { return w.Count(t, "a", "deleted") == 1 })
	r.Stop() // all that it logs and counts is there then
	lines := log.counted()
	require.Equal(t, 1, lines["workspace failed"], lines)
	require.Zero(t, lines["job is left to the end of its lease"], lines)
	require.Equal(t, map[string]float64{"create sim": 1}, r.Counted(t, "prewarm_workspace_failures_total", "kind", "provider"))
	require.Zero(t, output.times.Load())
}

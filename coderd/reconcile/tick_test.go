package reconcile_test

import (
	"context"
	"crypto/rand"
	"sync/atomic"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/reconcile"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// I9: what was missed while a full pass ran is not served by that pass, whose snapshot is older; another one follows.
func TestMissed_duringAPass(t *testing.T) {
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "a", 2, 1)
	ctx, cancel := context.WithCancel(context.Background())
	var passes atomic.Int32
	var r *reconcile.Reconciler
	r = reconcile.New(reconcile.Options{
		Store: w.Store, Writer: workspaces.New(w.Store, uuid.New, "a"), Clock: quartz.NewReal(), Log: slog.Make(),
		Registerer: prometheus.NewRegistry(), Replica: "a", Tick: time.Hour, Random: rand.Reader, NewID: uuid.New,
		// Called when the pass has committed and is not yet over: two more prebuilds are wanted.
		Hints: hints.Local(hints.Ears{Wake: func() {
			if passes.Add(1) == 1 {
				_, err := w.Store.Pool.Exec(ctx, "UPDATE presets SET instances = 4")
				require.NoError(t, err)
				r.Missed()
			}
		}}),
	})
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	defer func() { cancel(); <-done }()
	coderdtest.Eventually(t, "another full pass", func() bool { return w.Count(t, "a", "provisioning") == 4 })
}

// A pass that failed waits longer each time, up to 8 s. That notifications are heard again says that the database answers, so
// the next pass does not wait for the rest of it.
func TestMissed_afterFailures(t *testing.T) {
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "a", 2, 1)
	ctx, cancel := context.WithCancel(context.Background())
	_, err := w.Store.Pool.Exec(ctx, "ALTER TABLE presets RENAME TO lost")
	require.NoError(t, err)
	var failed atomic.Int32
	r := reconcile.New(reconcile.Options{
		Store: w.Store, Writer: workspaces.New(w.Store, uuid.New, "a"), Clock: quartz.NewMock(t), // no wait ends by itself
		Log: slog.Make(sink(func() { failed.Add(1) })), Registerer: prometheus.NewRegistry(), Replica: "a", Tick: time.Hour,
		Random: rand.Reader, NewID: uuid.New, Hints: hints.Local(hints.Ears{}),
	})
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	defer func() { cancel(); <-done }()
	coderdtest.Eventually(t, "a failed pass", func() bool { return failed.Load() > 0 })
	_, err = w.Store.Pool.Exec(ctx, "ALTER TABLE lost RENAME TO presets")
	require.NoError(t, err)
	r.Missed()
	coderdtest.Eventually(t, "a pass", func() bool { return w.Count(t, "a", "provisioning") == 2 })
}

// sink calls f for each error in the log.
type sink func()

func (f sink) LogEntry(_ context.Context, e slog.SinkEntry) {
	if e.Level >= slog.LevelError {
		f()
	}
}

func (sink) Sync() {}

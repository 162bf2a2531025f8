package reconcile_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/reconcile"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/reconciledb"
)

// entries is a log that is only remembered.
type entries struct {
	mu  sync.Mutex
	all []slog.SinkEntry
}

func (l *entries) LogEntry(_ context.Context, e slog.SinkEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

func (*entries) Sync() {}

func (l *entries) fields() []map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []map[string]any
	for _, e := range l.all {
		line := map[string]any{"": e.Message}
		for _, f := range e.Fields {
			line[f.Name] = f.Value
		}
		all = append(all, line)
	}
	return all
}

// reconciler runs with its passes made by ticks of the given time, and nobody to work.
func reconciler(t *testing.T, w *coderdtest.World, log slog.Logger, tick time.Duration) *prometheus.Registry {
	t.Helper()
	reg, stop := stoppable(w, log, tick)
	t.Cleanup(func() { stop(nil) })
	return reg
}

// stoppable is one that is stopped for a cause, and waited for.
func stoppable(w *coderdtest.World, log slog.Logger, tick time.Duration) (*prometheus.Registry, func(cause error)) {
	reg := prometheus.NewRegistry()
	r := reconcile.New(reconcile.Options{
		Store: w.Store, Writer: workspaces.New(w.Store, uuid.New, "a"), Clock: quartz.NewReal(), Log: log,
		Registerer: reg, Replica: "a", Tick: tick, Random: rand.Reader, NewID: uuid.New, NameVictims: true,
		Hints: hints.Local(hints.Ears{}),
	})
	ctx, cancel := context.WithCancelCause(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	return reg, func(cause error) { cancel(cause); <-done }
}

// values are the samples of a metric: of counters their value, of histograms count and sum.
func values(t *testing.T, reg *prometheus.Registry, name string, labels ...string) (value, count, sum float64) {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			fits := f.GetName() == name && len(m.GetLabel()) == len(labels)
			for i, l := range m.GetLabel() { // sorted by name
				fits = fits && l.GetValue() == labels[i]
			}
			if fits {
				value += m.GetCounter().GetValue()
				count += float64(m.GetHistogram().GetSampleCount())
				sum += m.GetHistogram().GetSampleSum()
			}
		}
	}
	return value, count, sum
}

// A decision that changes something is one line, and passes that change nothing write none.
func TestLog_oneLineForEachDecision(t *testing.T) {
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "a", 2, 1)
	w.Pool(t, "b", 1, 1)
	w.Pool(t, "empty", 0, 1)
	log := &entries{}
	reg, stop := stoppable(w, slog.Make(log).Leveled(slog.LevelDebug), 20*time.Millisecond)
	defer stop(nil)
	passes := func(n float64) {
		coderdtest.Eventually(t, "passes", func() bool {
			done, _, _ := values(t, reg, "prewarm_passes_total", "done", "tick")
			return done >= n
		})
	}
	passes(5)
	lines := log.fields()
	require.Len(t, lines, 2, lines)
	created := map[any]any{}
	for _, line := range lines {
		require.Equal(t, "decided", line[""])
		require.Equal(t, "tick", line["trigger"])
		require.Contains(t, line["why"], "create ")
		require.Equal(t, 1, line["version"])
		require.Equal(t, line["create"], line["desired"])
		for name := range (prebuilds.Counts{}).All { // C3
			require.Contains(t, line, name)
		}
		created[line["preset"]] = line["create"]
	}
	require.Equal(t, map[any]any{"a/default": 2, "b/default": 1}, created)
	w.Pool(t, "a", 0, 1)
	done, _, _ := values(t, reg, "prewarm_passes_total", "done", "tick")
	passes(done + 3)
	lines = log.fields()
	require.Len(t, lines, 5, lines)
	require.Equal(t, 2, lines[2]["cancel"])
	require.Equal(t, 0, lines[2]["create"])
	require.Equal(t, 2, lines[2]["starting"])
	victims := []string{}
	for _, line := range lines[3:] { // at debug
		require.Equal(t, "victim chosen", line[""])
		require.Equal(t, "a/default", line["preset"])
		require.NotEmpty(t, line["why"])
		victims = append(victims, line["workspace"].(string))
	}
	var names []string
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), `SELECT array_agg(w.name) FROM workspaces w
		JOIN templates t ON t.id = w.template_id WHERE t.name = 'a'`).Scan(&names))
	require.ElementsMatch(t, names, victims)

	stop(errors.New("the replica was told to stop"))
	lines = log.fields()
	require.Equal(t, map[string]any{"": "loop ended", "why": "the replica was told to stop"}, lines[len(lines)-1])
}

// Who finds the lock held counts as busy, and how long it waited is known once it has the lock.
func TestMetrics_waitForTheLock(t *testing.T) {
	ctx := context.Background()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "a", 1, 1)
	var reg *prometheus.Registry
	busy := func() float64 {
		n, _, _ := values(t, reg, "prewarm_passes_total", "busy", "tick")
		return n
	}
	err := w.Store.InTx(ctx, database.TxOptions{Label: "hold lock"}, func(ctx context.Context, tx pgx.Tx) error {
		locked, err := reconciledb.New(tx).TryPassLock(ctx)
		require.True(t, locked)
		reg = reconciler(t, w, slog.Make(), time.Hour)
		coderdtest.Eventually(t, "busy a few times", func() bool { return busy() >= 3 })
		_, count, _ := values(t, reg, "prewarm_pass_lock_wait_seconds", "tick")
		require.Zero(t, count, "it still waits")
		return err
	})
	require.NoError(t, err)
	coderdtest.Eventually(t, "it has the lock", func() bool {
		_, count, sum := values(t, reg, "prewarm_pass_lock_wait_seconds", "tick")
		return count >= 1 && sum >= (10*time.Millisecond).Seconds() // three tries, 5 ms apart at least
	})
}

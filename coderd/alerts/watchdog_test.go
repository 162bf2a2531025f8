package alerts

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// lines is a log that is only remembered.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) LogEntry(_ context.Context, e slog.SinkEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e.Level.String()+" "+e.Message)
}

func (*lines) Sync() {}

func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// dog is a watchdog whose looks are made one by one, ten seconds apart.
type dog struct {
	*Watchdog
	t     *testing.T
	clock *quartz.Mock
	log   *lines
	reg   *prometheus.Registry
	snap  Snapshot
	err   error
	told  []string // what people are to be told of staleness, at each look that succeeded
}

func newDog(t *testing.T) *dog {
	t.Helper()
	d := &dog{t: t, clock: quartz.NewMock(t), log: &lines{}, reg: prometheus.NewRegistry()}
	d.Watchdog = NewWatchdog(WatchdogOptions{Clock: d.clock, Log: slog.Make(d.log), Registerer: d.reg, Tick: 15 * time.Second})
	d.read = func(context.Context) (*Snapshot, error) { return &d.snap, d.err }
	d.record = func(_ context.Context, _ *Snapshot, wrong map[Kind][]Episode) error {
		stale := ""
		for _, e := range wrong[Stale] {
			stale += e.Detail
		}
		d.told = append(d.told, stale)
		return nil
	}
	d.since = d.clock.Now()
	return d
}

func (d *dog) looks(n int) []string {
	for range n {
		d.clock.Advance(watchEvery)
		require.NoError(d.t, d.look(context.Background()))
	}
	return d.log.take()
}

func (d *dog) gauges() (stale, blind float64) {
	d.t.Helper()
	families, err := d.reg.Gather()
	require.NoError(d.t, err)
	require.Len(d.t, families, 2)
	return families[0].GetMetric()[0].GetGauge().GetValue(), families[1].GetMetric()[0].GetGauge().GetValue()
}

const tooLong = "ERROR no pass has succeeded for too long: pools are not refilled, and nothing that is in the way goes"

// It speaks up once when passes are stale, tells people for as long as they are, and says once when they succeed again.
func TestStale(t *testing.T) {
	t.Parallel()
	d := newDog(t)
	require.Equal(t, time.Minute, d.Limit())
	d.snap.Staleness = time.Minute
	require.Empty(t, d.looks(3), "just so")
	d.snap.Staleness = time.Minute + time.Second
	require.Equal(t, []string{tooLong}, d.looks(3))
	stale, blind := d.gauges()
	require.Equal(t, []float64{1, 0}, []float64{stale, blind})
	said := "no full pass has succeeded for 1m1s: pools are not refilled"
	require.Equal(t, []string{"", "", "", said, said, said}, d.told)
	d.snap.Staleness = time.Second
	require.Equal(t, []string{"INFO passes succeed again"}, d.looks(3))
	stale, _ = d.gauges()
	require.Zero(t, stale)
}

// A replica whose passes have never succeeded, since its first, speaks up too.
func TestNoPassEver(t *testing.T) {
	t.Parallel()
	d := newDog(t)
	d.snap.NoPass = true
	require.Empty(t, d.looks(6))
	require.Equal(t, []string{tooLong}, d.looks(6))
}

// Where nothing can be seen, that is said, and what has not been seen for long enough counts as stale.
func TestBlind(t *testing.T) {
	t.Parallel()
	d := newDog(t)
	require.Empty(t, d.looks(1))
	d.err = errors.New("the database is away")
	require.Equal(t, []string{"WARN cannot see whether passes succeed"}, d.looks(6))
	stale, blind := d.gauges()
	require.Equal(t, []float64{0, 1}, []float64{stale, blind})
	require.Equal(t, []string{tooLong}, d.looks(6))
	require.Len(t, d.told, 1, "nothing can be recorded")
	d.err = nil
	require.Equal(t, []string{"INFO passes succeed again"}, d.looks(2))
}

// A preset whose creation stopped is said once for as long as it is so, and again when it is so again.
func TestStopped(t *testing.T) {
	t.Parallel()
	d := newDog(t)
	a := Preset{ID: uuid.New(), Template: "go", Preset: "small", HardLimit: "3 failed creates"}
	b := Preset{ID: uuid.New(), Template: "go", Preset: "large", HardLimit: "3 failed creates"}
	d.snap.Presets = []Preset{a}
	require.Len(t, d.looks(3), 1)
	d.snap.Presets = []Preset{a, b}
	require.Len(t, d.looks(3), 1)
	d.snap.Presets = nil
	require.Empty(t, d.looks(1))
	d.snap.Presets = []Preset{b}
	require.Equal(t, []string{"WARN creation stopped"}, d.looks(3))
}

// Run looks by itself, and ends with its context.
func TestRun(t *testing.T) {
	t.Parallel()
	d := newDog(t)
	looked := make(chan struct{}, 1)
	d.read = func(context.Context) (*Snapshot, error) {
		looked <- struct{}{}
		return &Snapshot{}, nil
	}
	trap := d.clock.Trap().NewTicker("watchdog", "look")
	defer trap.Close()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan struct{})
	go func() { defer close(done); d.Run(ctx) }()
	trap.MustWait(ctx).MustRelease(ctx)
	d.clock.Advance(watchEvery)
	<-looked
	stop()
	<-done
}

package alerts

import (
	"context"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/metric"
)

// watchEvery is how often the watchdog looks.
const watchEvery = 10 * time.Second

// leastLimit is what staleness is never held against: a restart, or a database that is away for a moment, is no alarm.
const leastLimit = time.Minute

// WatchdogOptions are those of a Watchdog. All are needed.
type WatchdogOptions struct {
	Clock      quartz.Clock
	Log        slog.Logger
	Registerer prometheus.Registerer
	Tick       time.Duration // between two full passes
	Reader     *Reader
	Notifier   *Notifier
}

// Watchdog speaks up when what should happen does not.
type Watchdog struct {
	WatchdogOptions
	read   func(context.Context) (*Snapshot, error)                   // the Reader's
	record func(context.Context, *Snapshot, map[Kind][]Episode) error // by the Notifier

	stale prometheus.Gauge
	blind prometheus.Gauge

	since    time.Time // since when no look succeeded, or none was made
	wasStale bool
	wasBlind bool
	logged   map[Kind]map[string]bool // subjects that it was said of
	known    map[Kind]map[string]bool // episodes that this replica has recorded, and need not again
}

// NewWatchdog returns a Watchdog; nothing happens before Run.
func NewWatchdog(o WatchdogOptions) *Watchdog {
	o.Log = o.Log.Named("watchdog")
	w := &Watchdog{WatchdogOptions: o, known: map[Kind]map[string]bool{}, logged: map[Kind]map[string]bool{}, read: o.Reader.Read}
	w.record = w.keepAll
	f := metric.New(o.Registerer)
	w.stale = f.Gauge("prewarm_pass_stale", "1 while no full pass has succeeded for longer than the watchdog allows.")
	w.blind = f.Gauge("prewarm_watchdog_blind", "1 while this replica's watchdog cannot read what it watches.")
	return w
}

// Limit is how old the last full pass may be.
func (w *Watchdog) Limit() time.Duration { return max(leastLimit, 4*w.Tick) }

// Run looks until ctx ends.
func (w *Watchdog) Run(ctx context.Context) {
	w.since = w.Clock.Now("watchdog", "start")
	lease.Loop{
		Clock: w.Clock, Log: w.Log, What: "record what people are to know", Tags: []string{"watchdog", "look"},
		Every: watchEvery, Later: true,
	}.Run(ctx, w.look)
}

func (w *Watchdog) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, watchEvery)
	defer cancel()
	now := w.Clock.Now("watchdog", "look")
	snap, err := w.read(ctx)
	if err != nil {
		if ctx.Err() != nil && context.Cause(ctx) == context.Canceled { //nolint:errorlint // it is never wrapped
			return nil
		}
		w.see(ctx, now.Sub(w.since), true, err)
		return nil
	}
	staleness := snap.Staleness
	if snap.NoPass { // counted from when this replica began to wait for the first
		staleness = now.Sub(w.since)
	} else {
		w.since = now
	}
	wrong := snap.episodes()
	if stale := w.see(ctx, staleness, false, nil); stale != "" {
		wrong[Stale] = []Episode{{Subject: "installation", Detail: stale}}
	}
	w.logOnce(ctx, HardLimit, "creation stopped", wrong[HardLimit])
	w.logOnce(ctx, ClaimedRefused, "claimed workspaces refused by their provider", wrong[ClaimedRefused])
	return w.record(ctx, snap, wrong)
}

// see says once that passes are stale, and once that they are not. It returns what is said to people, empty if they are
// not.
func (w *Watchdog) see(ctx context.Context, staleness time.Duration, blind bool, err error) string {
	stale := staleness > w.Limit()
	w.stale.Set(flag(stale))
	w.blind.Set(flag(blind))
	switch {
	case stale && !w.wasStale:
		w.Log.Error(ctx, "no pass has succeeded for too long: pools are not refilled, and nothing that is in the way goes",
			slog.F("for", staleness.Round(time.Second).String()), slog.F("limit", w.Limit().String()), slog.Error(err))
	case !stale && w.wasStale:
		w.Log.Info(ctx, "passes succeed again")
	case blind && !w.wasBlind && !stale:
		w.Log.Warn(ctx, "cannot see whether passes succeed", slog.Error(err))
	}
	w.wasStale, w.wasBlind = stale, blind
	if !stale {
		return ""
	}
	return "no full pass has succeeded for " + staleness.Round(time.Second).String() + ": pools are not refilled"
}

// logOnce writes one line for each subject for as long as its episode lasts.
func (w *Watchdog) logOnce(ctx context.Context, kind Kind, message string, episodes []Episode) {
	now := make(map[string]bool, len(episodes))
	for _, e := range episodes {
		now[e.Subject] = true
		if !w.logged[kind][e.Subject] {
			w.Log.Warn(ctx, message, slog.F("preset", e.Template+"/"+e.Preset), slog.F("why", e.Detail))
		}
	}
	w.logged[kind] = now
}

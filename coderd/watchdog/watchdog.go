// Package watchdog speaks up when what should happen does not: no full pass has succeeded for too long, a preset's
// creation has stopped after repeated failures, a target cannot be reached. Every replica watches, as any of them may be
// the last; the log line of each is its own, the notification is one (coderd/notify).
//
// It decides nothing and mends nothing.
package watchdog

import (
	"context"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
)

// every is how often it looks.
const every = 10 * time.Second

// leastLimit is what staleness is never held against: a restart, or a database that is away for a moment, is no alarm.
const leastLimit = time.Minute

// View is what is so now.
type View struct {
	Staleness time.Duration // since the last full pass that was committed began
	NoPass    bool          // none was, ever
	Stopped   []Subject     // presets whose creation stopped (C8)
	Short     []Subject     // presets whose autosize does not reach its target
	Breakers  []Subject     // providers whose breaker is open (S3)
	Missing   []Subject     // claimed workspaces that are not at their provider any more
}

// Subject is one preset, provider or workspace, and what is wrong with it.
type Subject struct {
	ID             string
	OrganizationID uuid.UUID
	Template       string
	Preset         string
	Detail         string
}

// Options of a Watchdog. All are needed.
type Options struct {
	Clock      quartz.Clock
	Log        slog.Logger
	Registerer prometheus.Registerer
	// Tick is the time between two full passes.
	Tick time.Duration
	// Look returns what is so. It is asked again and again, so it must be cheap.
	Look func(context.Context) (View, error)
	// Tell keeps people informed of all that is wrong now, of each kind: it opens and ends episodes.
	Tell func(ctx context.Context, v View, stale string) error
}

// Watchdog watches.
type Watchdog struct {
	Options
	stale prometheus.Gauge
	blind prometheus.Gauge

	since    time.Time // since when no look succeeded, or none was made
	wasStale bool
	wasBlind bool
	stopped  map[string]bool
}

// New returns a Watchdog; nothing happens before Run.
func New(o Options) *Watchdog {
	o.Log = o.Log.Named("watchdog")
	w := &Watchdog{Options: o, stopped: map[string]bool{}}
	w.stale = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "prewarm_pass_stale", Help: "1 while no full pass has succeeded for longer than the watchdog allows.",
	})
	w.blind = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "prewarm_watchdog_blind", Help: "1 while this replica's watchdog cannot read what it watches.",
	})
	o.Registerer.MustRegister(w.stale, w.blind)
	return w
}

// Limit is how old the last full pass may be.
func (w *Watchdog) Limit() time.Duration { return max(leastLimit, 4*w.Tick) }

// Run looks until ctx ends.
func (w *Watchdog) Run(ctx context.Context) {
	w.since = w.Clock.Now("watchdog", "start")
	ticker := w.Clock.NewTicker(every, "watchdog", "look")
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		w.look(ctx)
	}
}

func (w *Watchdog) look(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, every)
	defer cancel()
	now := w.Clock.Now("watchdog", "look")
	view, err := w.Look(ctx)
	if err != nil {
		if ctx.Err() != nil && context.Cause(ctx) == context.Canceled { //nolint:errorlint // it is never wrapped
			return
		}
		w.see(ctx, now.Sub(w.since), true, err)
		return
	}
	if view.NoPass { // counted from when this replica began to wait for the first
		view.Staleness = now.Sub(w.since)
	} else {
		w.since = now
	}
	stale := w.see(ctx, view.Staleness, false, nil)
	w.tellStopped(ctx, view.Stopped)
	if err := w.Tell(ctx, view, stale); err != nil && ctx.Err() == nil {
		w.Log.Warn(ctx, "record what people are to know", slog.Error(err))
	}
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

// tellStopped says once of each preset that its creation stopped.
func (w *Watchdog) tellStopped(ctx context.Context, stopped []Subject) {
	now := make(map[string]bool, len(stopped))
	for _, s := range stopped {
		now[s.ID] = true
		if !w.stopped[s.ID] {
			w.Log.Warn(ctx, "creation stopped", slog.F("preset", s.Template+"/"+s.Preset), slog.F("why", s.Detail))
		}
	}
	w.stopped = now
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

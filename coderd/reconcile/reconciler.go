package reconcile

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/tracing"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// Options of a Reconciler. All but Tracer and Jitter are needed.
type Options struct {
	Store      *database.Store
	Writer     *workspaces.Writer
	Clock      quartz.Clock
	Log        slog.Logger
	Registerer prometheus.Registerer
	Replica    string // unique among the running replicas
	Tick       time.Duration
	Random     io.Reader // of workspace names
	NewID      func() uuid.UUID
	Hints      *hints.Hints
	Tracer     trace.Tracer // nil: no traces
	// NameVictims writes the name of each workspace that is to go, at debug. It costs such a pass a statement after its commit.
	NameVictims bool
	// Jitter is from zero to below the given span; nil: by chance.
	Jitter func(time.Duration) time.Duration
}

// Reconciler runs passes on one replica.
type Reconciler struct {
	Options
	metrics  *metrics
	deadline time.Duration // of a pass, from this side

	wake, publish hints.Bell
	answers       hints.Bell // the database answers again

	mu          sync.Mutex // guards what follows
	ticked      bool       // since the loop looked last
	nudges      map[uuid.UUID]nudged
	refills     map[uuid.UUID]time.Time // this process's clock: when they become nudges
	unpublished map[uuid.UUID]struct{}
	causes      []cause
	traces      map[uuid.UUID]string // by template, of nudges that are not published yet

	// Only the loop's goroutine uses what follows.
	tickPending bool
	tickAt      time.Time               // the database's clock when the pending tick was first refused; zero if it was not
	retryAt     map[uuid.UUID]time.Time // this process's clock: templates whose plan changes by time alone
	holder      holder
	refusedAt   map[string]time.Time // this process's clock: since when a trigger waits for the lock

	schedules schedules
}

// New returns a Reconciler; nothing happens before Run.
func New(o Options) *Reconciler {
	if o.Jitter == nil {
		o.Jitter = rand.N[time.Duration]
	}
	o.Log, o.Tracer = o.Log.Named("reconcile"), tracing.OrOff(o.Tracer)
	return &Reconciler{
		Options: o, metrics: newMetrics(o.Registerer), deadline: passDeadline, wake: hints.NewBell(), publish: hints.NewBell(),
		answers: hints.NewBell(),
		nudges:  map[uuid.UUID]nudged{}, refills: map[uuid.UUID]time.Time{}, unpublished: map[uuid.UUID]struct{}{}, retryAt: map[uuid.UUID]time.Time{},
		refusedAt: map[string]time.Time{}, traces: map[uuid.UUID]string{},
	}
}

const (
	busyLeast   = 5 * time.Millisecond // a busy lock is tried again after 5 to 50 ms
	busySpread  = 45 * time.Millisecond
	errorPause  = 250 * time.Millisecond // after an error, doubled up to
	errorPauses = 5                      // this often: 8 s
)

// Run ticks at once and then at each interval, and serves nudges in between, until ctx ends.
func (r *Reconciler) Run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { r.publishNudges(ctx) })
	both.Go(func() { r.loop(ctx) })
	both.Wait()
	r.Log.Info(context.WithoutCancel(ctx), "loop ended", slog.F("why", context.Cause(ctx).Error()))
}

func (r *Reconciler) loop(ctx context.Context) {
	r.tickNow() // C1: a pass at start
	ticker := r.Clock.NewTimer(r.jittered(), "reconcile", "tick")
	defer ticker.Stop()
	later := r.Clock.NewTimer(time.Hour, "reconcile", "later")
	defer later.Stop()
	failures := 0
	for {
		// What woke the loop, and what is due just now, are served at once, whichever of them the select chose.
		select {
		case <-r.wake:
		default:
		}
		select {
		case <-r.answers:
			failures = 0
		default:
		}
		r.nudgeDue()
		var next time.Duration
		switch err := r.serve(ctx); {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errBusy):
			next = busyLeast + r.Jitter(busySpread)
		case err != nil:
			next = errorPause << min(failures, errorPauses)
			failures++
			r.Log.Error(ctx, "pass failed; it will be tried again", slog.F("in", next.String()), slog.Error(err))
		default:
			failures = 0
			next = r.untilDue()
		}
		later.Reset(next, "reconcile", "later")
		wake := r.wake
		if failures > 0 {
			wake = nil // no hint makes a broken database whole
		}
		select { // a tick that came during the pass goes before hints, whatever the next select would choose
		case <-ticker.C:
			r.tickNow()
			ticker.Reset(r.jittered(), "reconcile", "tick")
		default:
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			r.tickNow()
			ticker.Reset(r.jittered(), "reconcile", "tick")
		case <-wake:
		case <-r.answers:
			failures = 0
		case <-later.C:
		}
	}
}

// jittered is one interval, up to a tenth shorter or longer, so that replicas do not march in step.
func (r *Reconciler) jittered() time.Duration {
	return r.Tick - r.Tick/10 + r.Jitter(r.Tick/5+1)
}

// serve does what is pending: the tick if there is one, which covers all nudges, else the nudges. An error leaves all of
// it pending.
func (r *Reconciler) serve(ctx context.Context) error {
	r.takeTick()
	taken := r.takeNudges()
	if r.tickPending && r.doneElsewhere(ctx) {
		r.tickDone()
	}
	var err error
	switch {
	case r.tickPending:
		err = r.serveTick(ctx)
	case len(taken) > 0:
		err = r.serveNudges(ctx, taken)
	}
	if err != nil {
		r.giveBack(taken)
	}
	return err
}

// doneElsewhere says whether another replica committed a full pass begun after this tick was refused the lock.
func (r *Reconciler) doneElsewhere(ctx context.Context) bool {
	if r.tickAt.IsZero() {
		return false
	}
	last, err := viewsdb.New(r.Store).LastPass(ctx)
	if err != nil || last.FullBeganAt == nil || !last.FullBeganAt.After(r.tickAt) {
		return false
	}
	r.metrics.passes.WithLabelValues("tick", "elsewhere").Inc()
	delete(r.refusedAt, "tick")
	return true
}

func (r *Reconciler) serveTick(ctx context.Context) error {
	err := r.run(ctx, "tick", nil)
	if err == nil {
		r.tickDone()
		return nil
	}
	if errors.Is(err, errBusy) && r.tickAt.IsZero() {
		if last, lastErr := viewsdb.New(r.Store).LastPass(ctx); lastErr == nil {
			r.tickAt = last.Now
		}
	}
	return err
}

// takeTick makes a new tick the pending one: one that came during a pass is not served by that pass, whose snapshot is
// older.
func (r *Reconciler) takeTick() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ticked {
		r.ticked, r.tickPending, r.tickAt = false, true, time.Time{}
	}
}

func (r *Reconciler) tickDone() { r.tickPending, r.tickAt = false, time.Time{} }

func (r *Reconciler) serveNudges(ctx context.Context, taken map[uuid.UUID]nudged) error {
	templates, err := r.unserved(ctx, taken)
	if err != nil {
		return err
	}
	r.forgetCauses(taken, templates)
	if len(templates) == 0 {
		r.metrics.passes.WithLabelValues("nudge", "elsewhere").Inc()
		delete(r.refusedAt, "nudge")
		return nil
	}
	return r.run(ctx, "nudge", templates)
}

// run does one pass and everything that follows from it.
func (r *Reconciler) run(ctx context.Context, trigger string, templates []uuid.UUID) error {
	start := r.Clock.Now("reconcile", "pass")
	spanned, span, causes := r.startTrace(ctx, trigger, templates)
	res, err := r.pass(spanned, templates)
	r.endTrace(span, causes, res, err)
	took := r.Clock.Since(start, "reconcile", "pass")
	r.metrics.observe(trigger, res, took, err)
	r.observeLock(trigger, start, err)
	if errors.Is(err, errBusy) {
		if watchErr := r.watchHolder(ctx); watchErr != nil && ctx.Err() == nil {
			r.Log.Warn(ctx, "watch the holder of the lock", slog.Error(watchErr))
		}
		return err
	}
	if err != nil {
		return err
	}
	now := r.Clock.Now("reconcile", "due")
	if res.Full {
		clear(r.retryAt)
	}
	for _, t := range templates {
		delete(r.retryAt, t)
	}
	for t, at := range res.RetryAt {
		// A moment later than asked, since the two clocks only nearly agree.
		r.retryAt[t] = now.Add(at.Sub(res.BeganAt) + 10*time.Millisecond)
	}
	for id, presetErr := range res.Errors {
		r.Log.Error(ctx, "preset could not be reconciled", slog.F("preset_id", id), slog.Error(presetErr))
	}
	if res.Created+res.Intents+res.Moves > 0 {
		r.tell(spanned, trigger, res, took)
		r.Hints.Wake()
	}
	if len(res.Again) > 0 {
		r.Nudge(res.Again...)
	}
	return nil
}

// untilDue is the time to the earliest refill, or plan that changes by time alone.
func (r *Reconciler) untilDue() time.Duration {
	next := time.Hour
	now := r.Clock.Now("reconcile", "due")
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, times := range []map[uuid.UUID]time.Time{r.retryAt, r.refills} {
		for _, at := range times {
			next = min(next, max(0, at.Sub(now)))
		}
	}
	return next
}

// nudgeDue nudges the templates whose time has come: those of retries within this process.
func (r *Reconciler) nudgeDue() {
	now := r.Clock.Now("reconcile", "due")
	r.mu.Lock()
	defer r.mu.Unlock()
	for t, at := range r.refills {
		if !at.After(now) {
			r.nudges[t] = nudged{}
			r.unpublished[t] = struct{}{}
			delete(r.refills, t)
			r.publish.Ring()
		}
	}
	for t, at := range r.retryAt {
		if !at.After(now) {
			r.nudges[t] = nudged{}
			delete(r.retryAt, t)
		}
	}
}

package lifecycle

import (
	"cmp"
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/tracing"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// Options of a Worker. Zero durations and slots take the defaults.
type Options struct {
	Store        *database.Store
	Writer       *workspaces.Writer
	Providers    *provider.Registry
	Clock        quartz.Clock
	Log          slog.Logger
	Registerer   prometheus.Registerer
	Replica      string
	Installation uuid.UUID
	Hints        *hints.Hints

	// Callback makes what the agent of a workspace calls back with, for an attempt to create it. Nil: templates with an
	// agent can't be created.
	Callback func(ctx context.Context, job database.Job, agent json.RawMessage) (provider.Callback, error)

	// Runner is what a workspace is to be at its forge, for providers that take it (P5). Nil: there are no forges.
	Runner func(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (*provider.Runner, error)
	// Deregister unregisters the runner of a workspace at its forge, before the workspace goes (P7). Nil: there are no forges.
	Deregister func(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (provider.Verdict, error)

	// Mark has the provider show a workspace as claimed, before it is started for its claim. Nil: none shows it.
	Mark func(ctx context.Context, workspaceIDs ...uuid.UUID) error

	// State begins the run of an attempt at a provider that takes states. Nil: there are none.
	State func(ctx context.Context, job database.Job) (provider.State, error)

	Lease time.Duration // 15 s; a fifth of it passes between heartbeats
	Grace time.Duration // 10 s to finish running jobs when stopping
	Slots Slots

	Timeouts Timeouts
	Tracer   trace.Tracer // nil: no traces
	// Jitter is from zero to below the given span; nil: by chance.
	Jitter func(time.Duration) time.Duration
}

// Slots are how many jobs of each lane this replica runs at once.
type Slots struct{ Create, Probe, Start, Retire int }

const (
	defaultLease = 15 * time.Second
	defaultGrace = 10 * time.Second
	// poll bounds how long work lies unseen when a notification is lost.
	poll = time.Second
)

// Worker leases and does jobs on one replica.
type Worker struct {
	Options
	log       slog.Logger
	held      *lease.Held[uuid.UUID] // jobs
	creates   *lane
	probes    *lane
	starts    *lane
	retires   *lane
	intents   hints.Bell
	awaited   awaited
	handovers *hints.Todo // claimed workspaces that may have to be handed over to their owners
	metrics   *metrics
	traced    bool
}

// New returns a Worker; nothing happens before Run.
func New(o Options) *Worker {
	o.Lease, o.Grace = cmp.Or(o.Lease, defaultLease), cmp.Or(o.Grace, defaultGrace)
	o.Slots = cmp.Or(o.Slots, Slots{Create: 64, Probe: 256, Start: 64, Retire: 32}) // creates are bounded per provider too (S5)
	o.Timeouts = o.Timeouts.orDefault()
	traced := o.Tracer != nil
	o.Tracer = tracing.OrOff(o.Tracer)
	if o.Jitter == nil {
		o.Jitter = rand.N[time.Duration]
	}
	w := &Worker{
		traced: traced,

		Options: o, log: o.Log.Named("lifecycle"), intents: hints.NewBell(), metrics: newMetrics(o.Registerer),
		held: lease.NewHeld[uuid.UUID](o.Clock, o.Lease), handovers: hints.NewTodo(),
	}
	w.creates = newLane(w, "create", o.Slots.Create, map[database.JobKind]task{
		database.JobKindCreate: w.create, database.JobKindHandover: w.handover,
	}, database.JobKindHandover)
	w.probes = newLane(w, "probe", o.Slots.Probe, map[database.JobKind]task{database.JobKindProbe: w.probe})
	w.starts = newLane(w, "start", o.Slots.Start, map[database.JobKind]task{database.JobKindStart: w.start})
	w.retires = newLane(w, "retire", o.Slots.Retire, map[database.JobKind]task{
		database.JobKindDrain: w.drain, database.JobKindDelete: w.delete, database.JobKindReset: w.reset,
		database.JobKindStop: w.stop,
	})
	return w
}

// Wake makes every lane look for work now. It never blocks.
func (w *Worker) Wake() {
	w.creates.wake.Ring()
	w.probes.wake.Ring()
	w.starts.wake.Ring()
	w.retires.wake.Ring()
	w.intents.Ring()
}

// Run works until ctx ends, then finishes or returns what it holds within the grace, and returns.
func (w *Worker) Run(ctx context.Context) {
	// Jobs and their heartbeats outlive ctx by the grace.
	jobs, stopJobs := context.WithCancel(context.WithoutCancel(ctx))
	defer stopJobs()
	beats, stopBeats := context.WithCancel(jobs)
	defer stopBeats()

	var heart, loops sync.WaitGroup
	heart.Go(func() { w.held.Beat(beats, w.log, w.extend) })
	for _, l := range []*lane{w.creates, w.probes, w.starts, w.retires} {
		loops.Go(func() { l.run(ctx, jobs) })
	}
	loops.Go(func() { w.carryOutIntents(ctx) })
	loops.Go(func() { w.endQuarantines(ctx) })
	loops.Go(func() { w.beginHandovers(ctx) })

	<-ctx.Done()
	expired := w.Clock.AfterFunc(w.Grace, stopJobs, "lifecycle", "grace")
	defer expired.Stop()
	loops.Wait()
	stopBeats()
	heart.Wait()
}

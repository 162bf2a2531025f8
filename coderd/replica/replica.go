// Package replica builds a replica from its parts, and runs and stops its loops. The server builds its replica here, and so
// do tests, the simulation and the replay of forges: what is connected here, is connected in all of them.
//
// Rooms do not know one another. They are made in an order in which each has what it needs of those before it; what goes
// the other way is a hint (package hints).
package replica

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/prewarm-dev/prewarm/coderd/alerts"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/autosize"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/inbox"
	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/coderd/events"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/leases"
	"github.com/prewarm-dev/prewarm/coderd/lifecycle"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/reconcile"
	"github.com/prewarm-dev/prewarm/coderd/replicas"
	"github.com/prewarm-dev/prewarm/coderd/retention"
	"github.com/prewarm-dev/prewarm/coderd/seal"
	"github.com/prewarm-dev/prewarm/coderd/states"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/tunnel"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/pubsub"
)

// Parts are what a replica is built from. Those that do not say otherwise are needed.
type Parts struct {
	Name         string // unique among the running replicas
	Installation uuid.UUID
	Store        *database.Store
	Clock        quartz.Clock
	Log          slog.Logger
	Registerer   prometheus.Registerer
	Publisher    hints.Publisher
	Providers    *provider.Registry
	Calls        *inventory.Calls // counts the calls of Providers; nil: nobody does
	Tick         time.Duration
	Tracer       trace.Tracer // nil: no traces
	NameVictims  bool         // in the log at debug (reconcile.Options)

	// How chance and order come in; nil: as usual.
	Random io.Reader // of workspace names
	NewID  func() uuid.UUID
	Jitter func(time.Duration) time.Duration
	Yield  func() // before a batch of claims is formed

	// Forges are asked by Directory; nil: there are none. Zero fields of Pace take the defaults.
	Directory forge.Directory
	Pace      runners.Pace
	// Deregister and Runner are what workers ask of forges; nil: as Runners answers.
	Deregister func(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (provider.Verdict, error)
	Runner     func(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (*provider.Runner, error)

	// Of claims, jobs and inventories; zero values take the defaults.
	MaxWaitingClaims, MaxColdClaims int32
	Lease, Grace                    time.Duration // of jobs
	Timeouts                        lifecycle.Timeouts
	Inventory                       func(*inventory.Options) // may change them; nil: they stay

	// What agents are given, as in instance.Options.
	URL      string
	CABundle []byte
	Binaries string
	Keys     *seal.Keys
	SealKeys bool

	Webhook    alerts.Webhook // zero: nobody is notified
	InstanceID uuid.UUID      // of this run, in the list of replicas, with what follows
	Version    string
	Address    string
	States     *states.Service // of Terraform; nil: those of Store and Keys
	// AdvertiseURL is where the other replicas reach this one; empty: nowhere.
	AdvertiseURL string
	// Streams is what users may take of the data plane.
	Streams tunnel.Limits
}

// Replica is everything of a replica but its API. It is safe for concurrent use.
type Replica struct {
	Hints      *hints.Hints
	Writer     *workspaces.Writer
	Providers  *provider.Registry
	Reconciler *reconcile.Reconciler
	Worker     *lifecycle.Worker
	Claims     *claim.Service
	Instances  *instance.Service
	States     *states.Service // of Terraform
	Tunnels    *tunnel.Service
	Sessions   *auth.Recorder // of those who are in workspaces
	Inventory  *inventory.Service
	Machines   *inventory.Machines
	Inbox      *inbox.Service   // nil, as the next, where there are no forges
	Runners    *runners.Service // of forges
	Events     *events.Hub
	Sizes      *autosize.Service
	Leases     *leases.Ender
	Keeper     *retention.Keeper
	Registered *replicas.Replica
	Notifier   *alerts.Notifier
	Watchdog   *alerts.Watchdog
	Templates  *templates.Service

	parts            Parts
	providersChanged hints.Bell
	running          sync.WaitGroup
}

// New builds a replica, of which nothing runs yet. ctx ends what it says to others by itself: it should outlive the loops.
func New(ctx context.Context, p Parts) *Replica {
	p.Random = cmp.Or(p.Random, rand.Reader)
	if p.NewID == nil {
		p.NewID = workspaces.NewID
	}
	r := &Replica{
		parts: p, Providers: p.Providers, providersChanged: hints.NewBell(), Hints: hints.New(ctx, p.Publisher, p.Log),
		Writer: workspaces.New(p.Store, p.NewID, p.Name),
	}
	r.Reconciler = reconcile.New(reconcile.Options{
		Store: p.Store, Writer: r.Writer, Clock: p.Clock, Log: p.Log, Registerer: p.Registerer, Replica: p.Name, Tick: p.Tick,
		Random: p.Random, NewID: p.NewID, Jitter: p.Jitter, Hints: r.Hints, Tracer: p.Tracer, NameVictims: p.NameVictims,
	})
	r.Claims = claim.New(claim.Options{
		Store: p.Store, Writer: r.Writer, Clock: p.Clock, Log: p.Log, Registerer: p.Registerer, NewID: p.NewID,
		Hints: r.Hints, Tracer: p.Tracer, MaxWaiting: p.MaxWaitingClaims, MaxCold: p.MaxColdClaims, Yield: p.Yield,
		HandOver: func(ctx context.Context, ids ...uuid.UUID) error { return r.Worker.BeginHandovers(ctx, ids...) },
	})
	r.Instances = instance.New(instance.Options{
		Store: p.Store, Writer: r.Writer, Clock: p.Clock, Log: p.Log, Registerer: p.Registerer, Hints: r.Hints,
		URL: p.URL, CABundle: p.CABundle, Binaries: p.Binaries, Keys: p.Keys, SealKeys: p.SealKeys,
	})
	r.States = p.States
	if r.States == nil {
		r.States = &states.Service{Store: p.Store, Keys: p.Keys}
	}
	r.Tunnels = tunnel.New(tunnel.Options{
		Store: p.Store, Clock: p.Clock, Log: p.Log, Registerer: p.Registerer, Hints: r.Hints, InstanceID: p.InstanceID,
		Limits: p.Streams, URL: p.AdvertiseURL, Keys: func(ctx context.Context) ([][]byte, error) { return r.Instances.Derive(ctx, "prewarm/relay") },
	})
	r.Sessions = auth.NewRecorder(p.Store, p.Clock, p.Log.Named("auth"))
	finished := countFinished(p.Registerer)
	r.Writer.OnReleased(func(moved workspaces.Moved) {
		r.Tunnels.Ended(moved.WorkspaceID)
		finished(moved)
	})
	if p.Directory != nil {
		r.Inbox = inbox.New(inbox.Options{
			Store: p.Store, Directory: p.Directory, Clock: p.Clock, Log: p.Log, Registerer: p.Registerer, Replica: p.Name,
			NewID: p.NewID, Hints: r.Hints, Jitter: p.Jitter,
		})
		r.Runners = runners.New(runners.Options{
			Store: p.Store, Writer: r.Writer, Directory: p.Directory, Clock: p.Clock, Log: p.Log, Registerer: p.Registerer,
			Replica: p.Name, Hints: r.Hints, Jitter: p.Jitter, Pace: p.Pace, Keys: p.Keys,
			Round: []func(context.Context, uuid.UUID) error{r.Inbox.Missed},
		})
		if p.Deregister == nil {
			p.Deregister = r.Runners.Deregister
		}
		if p.Runner == nil {
			p.Runner = r.Runners.ToBe
		}
	}
	r.Worker = lifecycle.New(lifecycle.Options{
		Store: p.Store, Writer: r.Writer, Providers: p.Providers, Clock: p.Clock, Log: p.Log, Registerer: p.Registerer,
		Replica: p.Name, Installation: p.Installation, Hints: r.Hints, Callback: r.Instances.Callback,
		Deregister: p.Deregister, Runner: p.Runner, Lease: p.Lease, Grace: p.Grace, Timeouts: p.Timeouts, Jitter: p.Jitter,
		Tracer: p.Tracer, State: r.state,
		Mark: func(ctx context.Context, ids ...uuid.UUID) error { return r.Inventory.Mark(ctx, ids...) },
	})
	inventories := inventory.Options{
		Store: p.Store, Writer: r.Writer, Providers: p.Providers, Clock: p.Clock, Log: p.Log, Registerer: p.Registerer,
		Replica: p.Name, Installation: p.Installation, Hints: r.Hints, Calls: p.Calls,
		State: r.StateAlone,
	}
	if p.Inventory != nil {
		p.Inventory(&inventories)
	}
	r.Inventory = inventory.New(inventories)
	r.Writer.OnClaimed(func(ids ...uuid.UUID) {
		r.Instances.Claimed(ids...)
		r.Inventory.Claimed(ids...)
		r.Worker.Claimed(ids...)
	})
	r.Machines = &inventory.Machines{
		Store: p.Store, Providers: p.Providers, Clock: p.Clock, Log: p.Log.Named("inventory"), Hints: r.Hints,
	}
	r.Leases = &leases.Ender{
		Store: p.Store, Writer: r.Writer, Clock: p.Clock, Log: p.Log.Named("leases"), Hints: r.Hints,
		Jitter: p.Jitter,
	}
	r.Sizes = autosize.New(autosize.Options{
		Store: p.Store, Clock: p.Clock, Log: p.Log.Named("autosize"), Hints: r.Hints,
	})
	r.Keeper = &retention.Keeper{Store: p.Store, Clock: p.Clock, Log: p.Log.Named("retention")}
	r.Registered = &replicas.Replica{
		Store: p.Store, Clock: p.Clock, Log: p.Log.Named("replicas"), Name: p.Name, InstanceID: p.InstanceID,
		Version: p.Version, Address: p.Address, Sites: p.Providers.Sites,
	}
	r.Templates = &templates.Service{Store: p.Store, NewProvider: p.Providers.New, Archives: r.States, Clock: p.Clock}
	r.newAlerts(p)
	r.Events = events.New(events.Options{Store: p.Store, Clock: p.Clock, Log: p.Log, Registerer: p.Registerer})
	r.Hints.Connect(r.ears())
	return r
}

func (r *Replica) newAlerts(p Parts) {
	r.Notifier = alerts.NewNotifier(alerts.NotifierOptions{
		Store: p.Store, Clock: p.Clock, Log: p.Log, Registerer: p.Registerer, Webhook: p.Webhook,
		Installation: p.Installation, NewID: uuid.New,
	})
	reader := alerts.NewReader(p.Store, p.Clock, p.Providers.Refuses)
	p.Registerer.MustRegister(alerts.NewCollector(reader, p.Log))
	r.Watchdog = alerts.NewWatchdog(alerts.WatchdogOptions{
		Clock: p.Clock, Log: p.Log, Registerer: p.Registerer, Tick: p.Tick, Reader: reader, Notifier: r.Notifier,
	})
}

// ears are who hears which hint.
func (r *Replica) ears() hints.Ears {
	ears := hints.Ears{
		Nudge: r.Reconciler.Nudge, Refill: r.Reconciler.Refill, Cause: r.Reconciler.Cause,
		HeardNudge: r.Reconciler.Heard, MissedNudges: r.Reconciler.Missed, Wake: r.Worker.Wake, Bound: r.Claims.Bound, MissedBound: r.Claims.Missed,
		Claimed: r.Instances.Heard, Released: r.Tunnels.Heard, Providers: r.providersChanged.Ring, Any: r.Events.Heard,
	}
	if r.Inbox != nil {
		ears.Inbox, ears.Demand, ears.Settle = r.Inbox.Wake, r.Inbox.MatchSoon, r.Runners.SettleSoon
	}
	return ears
}

// Listen hears the other replicas, until ps is closed. After a reconnect everything is looked at again (I9).
func (r *Replica) Listen(ps *pubsub.PubSub) {
	for _, channel := range hints.Channels() {
		ps.Subscribe(channel, func(_ context.Context, e pubsub.Event) {
			if e.Resync {
				r.Hints.Missed(channel)
				return
			}
			r.Hints.Heard(channel, e.Payload)
		})
	}
}

// state begins a run of Terraform for an attempt.
func (r *Replica) state(ctx context.Context, job database.Job) (provider.State, error) {
	c, err := r.States.Begin(ctx, job.ID, job.Attempt)
	return provider.State{User: c.WorkspaceID.String(), Token: c.Token}, err
}

// StateAlone begins a run of Terraform for what has no workspace.
func (r *Replica) StateAlone(ctx context.Context, name string, workspaceID uuid.UUID, incarnation int32) (provider.State, error) {
	c, err := r.States.BeginAlone(ctx, workspaceID, name, incarnation)
	return provider.State{User: c.WorkspaceID.String(), Token: c.Token}, err
}

package coderd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/alerts"
	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/autosize"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
	"github.com/prewarm-dev/prewarm/coderd/demand/inbox"
	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/coderd/events"
	"github.com/prewarm-dev/prewarm/coderd/humanlog"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/leases"
	"github.com/prewarm-dev/prewarm/coderd/lifecycle"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/reconcile"
	"github.com/prewarm-dev/prewarm/coderd/replicas"
	"github.com/prewarm-dev/prewarm/coderd/retention"
	"github.com/prewarm-dev/prewarm/coderd/serve"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/tracing"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/pubsub"
	"github.com/prewarm-dev/prewarm/site"
)

// Options of one replica; the flags of `prewarm server`.
type Options struct {
	Listen      string // HOST:PORT; port 0 takes a free one
	DataDir     string // absolute
	AccessURL   string // where workspaces reach the API; empty: the address it listens at
	AccessCA    string // PEM: what they trust it by, beside the usual; may be empty
	PostgresURL string // empty: a PostgreSQL of our own under DataDir
	KeysFile    string // of encryption keys for secrets at rest; empty: one of our own under DataDir
	Quickstart  bool   // make a first template if there is none
	Tick        time.Duration
	Notify      alerts.Webhook // where people are told; zero: nowhere
	JSONLog     bool           // lines of JSON instead of text
	Drain       time.Duration  // how long it serves on, unready, before it stops
	// MetricsToken is what /metrics asks for, as a bearer token; empty: nothing.
	MetricsToken string
	// Proxies are those whose word for a client's address and scheme is taken; MaxConnections and MaxPerAddress are how
	// many connections there may be, 0 the defaults (coderd/serve).
	Proxies                       []netip.Prefix
	MaxConnections, MaxPerAddress int
	// MaxWaitingClaims and MaxColdClaims are how many claims of one user may wait (claim.Options).
	MaxWaitingClaims, MaxColdClaims int32
	Replica                         string // empty: made of the host's name and the port
	Version                         string
	Stdout                          io.Writer // for people who started the server; nil: none
	Stderr                          io.Writer // the log; nil: os.Stderr

	// Hooks have no flag: tests stop a replica with them at chosen moments. Nil: none.
	Hooks *Hooks
}

// Hooks are what a test may put into a replica.
type Hooks struct {
	Lease  time.Duration                             // of jobs; 0: the default
	Tracer pgx.QueryTracer                           // sees every statement; nil: none
	Wrap   func(provider.Provider) provider.Provider // put around every provider; nil: nothing
	// Inventory may change how fast inventories are made, which takes minutes otherwise; nil: it stays.
	Inventory func(*inventory.Options)
}

func (o Options) hooks() Hooks {
	if o.Hooks == nil {
		return Hooks{}
	}
	return *o.Hooks
}

// shutdownGrace is how long requests may take to end when the replica stops. Jobs have their own (lifecycle).
const shutdownGrace = 5 * time.Second

// Run runs a replica until ctx ends, and then stops it in order (G6): it becomes unready, takes no new lease, finishes
// or returns what it holds, and ends. A nil error is an orderly stop.
func Run(ctx context.Context, opts Options) error {
	if opts.Stderr == nil {
		opts.Stderr = os.Stderr
	}
	if opts.Stdout == nil {
		opts.Stdout = io.Discard
	}
	sink := humanlog.Sink
	if opts.JSONLog {
		sink = humanlog.JSON
	}
	log := slog.Make(sink(opts.Stderr))
	clock := quartz.NewReal()

	// What is cheap to find wrong comes first.
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", opts.Listen)
	if err != nil {
		return xerrors.Errorf("listen: %w", err) // the command line says what to do
	}
	defer listener.Close()
	if err := ensureDataDir(opts.DataDir); err != nil {
		return err
	}
	if opts.Replica == "" {
		opts.Replica = replicaName(listener.Addr())
	}

	db, err := openDatabase(ctx, opts, clock, log)
	if err != nil {
		return err
	}
	defer db.close(log)
	if err := db.enterHome(ctx, log); err != nil {
		return err
	}
	r, err := newReplica(ctx, opts, db, listener, clock, log)
	if err != nil {
		return err
	}
	go r.warnOfPlainKeys(ctx)
	go r.providers.warn(ctx, r.store) // to find out takes a process
	return r.run(ctx)
}

// replica is everything that runs.
type replica struct {
	opts     Options
	log      slog.Logger
	clock    quartz.Clock
	store    *database.Store
	listener net.Listener
	stopping atomic.Bool

	providers  *providers
	pubsub     *pubsub.PubSub
	reconciler *reconcile.Reconciler
	worker     *lifecycle.Worker
	claims     *claim.Service
	instances  *instance.Service
	events     *events.Hub
	inventory  *inventory.Service
	forges     *entities.Service
	inbox      *inbox.Service
	runners    *runners.Service
	machines   *inventory.Machines
	keeper     *retention.Keeper
	sizes      *autosize.Service
	leases     *leases.Ender
	registered *replicas.Replica
	traces     *tracing.Exporter
	notifier   *alerts.Notifier
	watchdog   *alerts.Watchdog
	server     *http.Server
	guard      *serve.Guard
	registry   *registry
}

func newReplica(ctx context.Context, opts Options, db *db, listener net.Listener, clock quartz.Clock, log slog.Logger) (*replica, error) {
	store := db.store
	hints := context.WithoutCancel(ctx) // for what is said to others until the last moment; bounded by publish
	installation, err := store.EnsureInstallation(ctx)
	if err != nil {
		return nil, err
	}
	r := &replica{opts: opts, log: log, clock: clock, store: store, listener: listener}
	reg := newRegistry(store)
	r.registry = reg
	r.traces, err = tracing.Start(ctx, tracing.Options{
		Env: os.Getenv, Replica: opts.Replica, Version: opts.Version, Clock: clock, Log: log,
	})
	if err != nil {
		return nil, err
	}
	var tracer trace.Tracer
	if r.traces.On() {
		tracer = r.traces.Tracer()
	}

	var counted atomic.Pointer[inventory.Service] // which comes after the providers it counts the calls of
	r.providers, err = newProviders(ctx, store, installation, opts, clock, log,
		alsoCounted(watchCalls(reg, clock, r.traces.Tracer()), &counted))
	if err != nil {
		return nil, err
	}
	r.pubsub = pubsub.New(context.WithoutCancel(ctx), store, clock, log.Named("pubsub")) // until the last has spoken
	writer := workspaces.New(store, workspaces.NewID, opts.Replica)
	r.reconciler = reconcile.New(reconcile.Options{
		Store: store, Writer: writer, Clock: clock, Log: log, Registerer: reg, Replica: opts.Replica, Tick: opts.Tick,
		Random: rand.Reader, NewID: workspaces.NewID, Committed: func(reconcile.Result) { r.wakeWorkers(hints) },
		Tracer: tracer,
	})
	r.claims = claim.New(claim.Options{
		Store: store, Writer: writer, Clock: clock, Log: log, Registerer: reg, NewID: workspaces.NewID,
		Nudge: r.reconciler.Nudge, Cause: r.reconciler.Cause, Tracer: tracer,
		Wake:    func() { r.wakeWorkers(hints) },
		Publish: func(id uuid.UUID) { r.publish(hints, claim.BoundChannel, id.String()) },

		MaxWaiting: opts.MaxWaitingClaims, MaxCold: opts.MaxColdClaims,
	})
	keys := openKeys(ctx, opts, clock, log)
	r.instances = instance.New(instance.Options{
		Keys: keys, SealKeys: opts.sealsKeys(),
		Store: store, Writer: writer, Clock: clock, Log: log, Registerer: reg, URL: accessURL(opts, listener.Addr()),
		CABundle: []byte(opts.AccessCA), Binaries: filepath.Join(opts.DataDir, "agents"), Nudge: r.reconciler.Nudge,
		Wake: func() { r.wakeWorkers(hints) },
		Hint: func(ctx context.Context) { r.publish(ctx, instance.HintChannel, "") },
	})
	writer.OnClaimed(r.instances.Claimed)
	writer.OnReleased(countFinished(reg))
	r.events = events.New(events.Options{Store: store, Clock: clock, Log: log, Registerer: reg})
	r.worker = lifecycle.New(lifecycle.Options{
		Store: store, Writer: writer, Providers: r.providers.Registry, Clock: clock, Log: log, Registerer: reg,
		Replica: opts.Replica, Installation: installation, Nudge: r.reconciler.Nudge, Bound: r.claims.Bound,
		Callback: r.instances.Callback, Deregister: r.deregister, Runner: r.toBe, Lease: opts.hooks().Lease, Tracer: tracer,
	})
	r.notifier = alerts.NewNotifier(alerts.NotifierOptions{
		Store: store, Clock: clock, Log: log, Registerer: reg, Webhook: opts.Notify, Installation: installation,
		NewID: uuid.New,
	})
	reader := alerts.NewReader(store, clock)
	reg.MustRegister(alerts.NewCollector(reader, log))
	r.watchdog = alerts.NewWatchdog(alerts.WatchdogOptions{
		Clock: clock, Log: log, Registerer: reg, Tick: opts.Tick, Reader: reader, Notifier: r.notifier,
	})
	inventories := inventory.Options{
		Store: store, Writer: writer, Providers: r.providers.Registry, Clock: clock, Log: log, Registerer: reg,
		Replica: opts.Replica, Installation: installation, Nudge: r.reconciler.Nudge, Wake: func() { r.wakeWorkers(hints) },
	}
	if change := opts.hooks().Inventory; change != nil {
		change(&inventories)
	}
	r.inventory = inventory.New(inventories)
	counted.Store(r.inventory)
	r.machines = &inventory.Machines{
		Store: store, Providers: r.providers.Registry, Clock: clock, Log: log.Named("inventory"), Nudge: r.reconciler.Nudge,
	}
	r.leases = &leases.Ender{
		Store: store, Writer: writer, Clock: clock, Log: log.Named("leases"), Nudge: r.reconciler.Nudge,
		Wake: func() { r.wakeWorkers(hints) },
	}
	r.sizes = autosize.New(autosize.Options{
		Store: store, Clock: clock, Log: log.Named("autosize"), Nudge: func(id uuid.UUID) { r.reconciler.Nudge(id) },
	})
	r.keeper = &retention.Keeper{Store: store, Clock: clock, Log: log.Named("retention")}
	r.registered = &replicas.Replica{
		Store: store, Clock: clock, Log: log.Named("replicas"), Name: opts.Replica, InstanceID: uuid.New(),
		Version: opts.Version, Address: listener.Addr().String(), Sites: r.providers.Sites,
	}
	r.forges = &entities.Service{
		Store: store, Keys: keys, Directory: entities.NewDirectory(store, keys, forgeKinds(), clock), SigningKeys: r.instances.Reseal,
	}
	r.newDemand(hints, writer)
	configuration := &templates.Service{Store: store, NewProvider: r.providers.New, Clock: clock}
	pages, err := site.Built()
	if err != nil {
		return nil, err
	}
	r.guard = serve.New(serve.Options{
		MaxConnections: opts.MaxConnections, MaxPerAddress: opts.MaxPerAddress, Trusted: opts.Proxies,
		Reserved: api.Reserved, Clock: clock, Registerer: reg,
	})
	r.server = &http.Server{
		Handler: r.guard.Handler(api.New(api.Options{
			Store: store, Auth: auth.NewAuthenticator(store, clock), Claims: r.claims, Passes: r.reconciler, Workspaces: writer,
			Templates: configuration, Providers: r.providers, Installation: installation, Instances: r.instances,
			Inventory: r.inventory, Events: r.events, Sizes: r.sizes, Notifier: r.notifier, Tracer: tracer,
			Nudge: r.reconciler.Nudge, Wake: r.worker.Wake,
			ProvidersChanged: func() { r.providersChanged(hints) }, Ready: r.unready, StaleAfter: r.watchdog.Limit(),
			MetricsToken: opts.MetricsToken,
			Metrics:      promhttp.HandlerFor(reg, promhttp.HandlerOpts{Registry: reg}), Clock: clock, Log: log,
			Forges: r.forges, Runners: r.runners, Webhooks: r.inbox, DemandChanged: r.inbox.MatchSoon,
			Version: opts.Version, Site: pages, AccessURL: accessURL(opts, listener.Addr()),
		})),
		ConnContext:       r.guard.Context,
		ConnState:         r.guard.State,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.Stdlib(ctx, log.Named("http"), slog.LevelDebug),
	}
	if opts.Quickstart {
		if err := r.quickstart(ctx, configuration); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// run starts everything and stops it in order.
func (r *replica) run(ctx context.Context) error {
	token, created, err := auth.EnsureOwner(ctx, r.store, r.opts.DataDir)
	if err != nil {
		return xerrors.Errorf("make the owner's token: %w", err)
	}
	r.subscribe()
	r.sayHello(token, created)

	work, stopWork := context.WithCancel(context.WithoutCancel(ctx)) // it drains first
	defer stopWork()
	var eg errgroup.Group
	for _, run := range []func(context.Context){
		func(ctx context.Context) { _ = r.reconciler.Run(ctx) },
		func(ctx context.Context) { _ = r.worker.Run(ctx) },
		r.instances.Run, r.providers.run, r.inventory.Run, r.machines.Run, r.keeper.Run, r.sizes.Run, r.registered.Run,
		r.notifier.Run, r.watchdog.Run, r.events.Run, r.leases.Run, r.inbox.Run, r.runners.Run,
	} {
		eg.Go(func() error { run(work); return nil })
	}
	served := make(chan error, 1)
	go func() { served <- r.server.Serve(r.guard.Listener(r.listener)) }()

	select {
	case <-ctx.Done():
	case err = <-served:
	}
	r.stopping.Store(true) // unready from here on
	r.log.Info(context.WithoutCancel(ctx), "stopping")
	if err == nil {
		r.drain()
	}
	stopWork()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if shutdownErr := r.server.Shutdown(last); shutdownErr != nil {
		_ = r.server.Close() // long polls and streams that would not end
	}
	r.claims.Close()
	_ = eg.Wait()
	r.pubsub.Close()
	if stopErr := r.traces.Stop(context.WithoutCancel(ctx)); stopErr != nil {
		r.log.Warn(context.WithoutCancel(ctx), "stop traces", slog.Error(stopErr))
	}
	left, cancelLeave := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancelLeave()
	if leaveErr := r.registered.Leave(left); leaveErr != nil {
		r.log.Warn(left, "leave the list of replicas", slog.Error(leaveErr))
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return xerrors.Errorf("serve: %w", err)
	}
	return nil
}

// drain lets a load balancer see that this replica is unready, before it refuses connections: one that the kernel has
// accepted for a server that is closing is reset, and its request lost.
func (r *replica) drain() {
	if r.opts.Drain <= 0 {
		return
	}
	timer := r.clock.NewTimer(r.opts.Drain, "coderd", "drain")
	defer timer.Stop()
	<-timer.C
}

// subscribe connects what other replicas say to who wants to hear it. After a reconnect everything is looked at again
// (I9).
func (r *replica) subscribe() {
	for channel, to := range map[string]struct {
		heard  func(payload string)
		missed func()
	}{
		reconcile.NudgeChannel: {r.reconciler.Heard, r.reconciler.Missed},
		claim.BoundChannel:     {r.claims.Heard, r.claims.Missed},
		instance.HintChannel:   {func(string) { r.instances.Heard() }, r.instances.Heard},
		jobsChannel:            {func(string) { r.worker.Wake() }, r.worker.Wake},
		providersChannel:       {func(string) { r.providers.refreshSoon() }, r.providers.refreshSoon},
		inboxChannel:           {func(string) { r.inbox.Wake() }, r.inbox.Wake},
	} {
		r.pubsub.Subscribe(channel, func(_ context.Context, e pubsub.Event) {
			r.events.Heard() // whatever it is of, something may have changed
			if e.Resync {
				to.missed()
				return
			}
			to.heard(e.Payload)
		})
	}
}

const (
	jobsChannel      = "prewarm_jobs"
	providersChannel = "prewarm_providers"
)

// wakeWorkers wakes the workers of this replica and of the others: there is work.
func (r *replica) wakeWorkers(ctx context.Context) {
	r.worker.Wake()
	go r.publish(ctx, jobsChannel, "")
}

func (r *replica) providersChanged(ctx context.Context) {
	r.providers.refreshSoon()
	go r.publish(ctx, providersChannel, "")
}

// publish sends a hint. One that is lost costs no more than the next poll.
func (r *replica) publish(ctx context.Context, channel, payload string) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if err := r.pubsub.Publish(ctx, channel, payload); err != nil && ctx.Err() == nil {
		r.log.Debug(ctx, "publish", slog.F("channel", channel), slog.Error(err))
	}
}

// unready says why requests should go elsewhere.
func (r *replica) unready(ctx context.Context) []string {
	var why []string
	if r.stopping.Load() {
		why = append(why, "the replica is stopping")
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if err := r.store.Pool.Ping(ctx); err != nil {
		why = append(why, "the database does not answer")
	}
	return why
}

// sayHello tells whoever started the server what to do next.
func (r *replica) sayHello(token string, created bool) {
	ctx := context.Background()
	r.log.Info(ctx, "ready", slog.F("address", r.listener.Addr().String()), slog.F("replica", r.opts.Replica),
		slog.F("version", r.opts.Version))
	made := ""
	if created {
		made = " (new)"
	}
	fmt.Fprintf(r.opts.Stdout, "Prewarm is at http://%s\nThe owner's token is in %s%s\n", r.listener.Addr(), token, made)
	if r.opts.Quickstart {
		fmt.Fprintln(r.opts.Stdout, "Look:  prewarm preset list --watch\nTake:  prewarm claim quickstart/default --exec -- sh")
	}
}

// accessURL is where workspaces reach this replica. One that listens everywhere is reached on this machine at least.
func accessURL(opts Options, addr net.Addr) string {
	if opts.AccessURL != "" {
		return strings.TrimSuffix(opts.AccessURL, "/")
	}
	host, port, _ := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

func replicaName(addr net.Addr) string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "replica"
	}
	_, port, _ := net.SplitHostPort(addr.String())
	return strings.ToLower(host) + "-" + port
}

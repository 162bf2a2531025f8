package coderd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/alerts"
	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
	"github.com/prewarm-dev/prewarm/coderd/humanlog"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/replica"
	"github.com/prewarm-dev/prewarm/coderd/serve"
	"github.com/prewarm-dev/prewarm/coderd/states"
	"github.com/prewarm-dev/prewarm/coderd/tracing"
	"github.com/prewarm-dev/prewarm/coderd/tunnel"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/pubsub"
	"github.com/prewarm-dev/prewarm/site"
)

// LeastRate is the lowest limit in bytes per second that Options.Streams may have, but for none.
const LeastRate = tunnel.LeastRate

// Options of one replica; the flags of `prewarm server`.
type Options struct {
	Listen    string // HOST:PORT; port 0 takes a free one
	DataDir   string // absolute
	AccessURL string // where workspaces reach the API; empty: the address it listens at
	// WorkspaceDomain is below which browsers reach ports of workspaces; empty: nowhere.
	WorkspaceDomain string
	Advertise       string // where other replicas reach this one; empty: the address it listens at, if that names a machine
	AccessCA        string // PEM: what they trust it by, beside the usual; may be empty
	PostgresURL     string // empty: a PostgreSQL of our own under DataDir
	KeysFile        string // of encryption keys for secrets at rest; empty: one of our own under DataDir
	Quickstart      bool   // make a first template if there is none
	Tick            time.Duration
	Notify          alerts.Webhook // where notifications are sent; zero: nowhere
	JSONLog         bool           // lines of JSON instead of text
	LogLevel        slog.Level     // what is less severe is left out; zero: debug
	Drain           time.Duration  // how long it serves on, unready, before it stops
	// MetricsToken is what /metrics asks for, as a bearer token; empty: nothing.
	MetricsToken string
	// Proxies are those whose word for a client's address and scheme is taken; MaxConnections and MaxPerAddress are how
	// many connections there may be, 0 the defaults (coderd/serve).
	Proxies                       []netip.Prefix
	MaxConnections, MaxPerAddress int
	// MaxWaitingClaims and MaxColdClaims are how many claims of one user may wait (claim.Options).
	MaxWaitingClaims, MaxColdClaims int32
	// Streams is what one user, and all users of one workspace, may take of a replica's data plane.
	Streams tunnel.Limits
	Replica string // empty: made of the host's name and the port
	Version string
	Stdout  io.Writer // for people who started the server; nil: none
	Command string    // with which they run a command against it; empty: prewarm
	Stderr  io.Writer // the log; nil: os.Stderr

	portDomain api.PortDomain // of WorkspaceDomain, checked

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
	opts.Stderr = cmp.Or[io.Writer](opts.Stderr, os.Stderr)
	opts.Stdout = cmp.Or(opts.Stdout, io.Discard)
	sink := humanlog.Sink
	if opts.JSONLog {
		sink = humanlog.JSON
	}
	log := slog.Make(sink(opts.Stderr)).Leveled(opts.LogLevel)
	clock := quartz.NewReal()

	// What is cheap to find wrong comes first.
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", opts.Listen)
	if err != nil {
		return xerrors.Errorf("listen: %w", err) // the command line says what to do
	}
	defer listener.Close()
	if opts.portDomain, err = portDomain(ctx, opts, listener.Addr(), log); err != nil {
		return err
	}
	if err := ensureDataDir(opts.DataDir); err != nil {
		return err
	}
	opts.Replica = cmp.Or(opts.Replica, replicaName(listener.Addr()))

	db, err := openDatabase(ctx, opts, clock, log)
	if err != nil {
		return err
	}
	defer db.close(log)
	if err := db.enterHome(ctx, log); err != nil {
		return err
	}
	r, err := newServer(ctx, opts, db, listener, clock, log)
	if err != nil {
		return err
	}
	go r.warnOfPlainKeys(ctx)
	go warnOfProviders(ctx, r.store, r.replica.Providers, log.Named("providers")) // to find out takes a process
	return r.run(ctx)
}

// server is a replica and what serves its API.
type server struct {
	opts     Options
	log      slog.Logger
	clock    quartz.Clock
	store    *database.Store
	listener net.Listener
	stopping atomic.Bool

	replica  *replica.Replica
	pubsub   *pubsub.PubSub
	traces   *tracing.Exporter
	http     *http.Server
	guard    *serve.Guard
	registry *registry
}

func newServer(ctx context.Context, opts Options, db *db, listener net.Listener, clock quartz.Clock, log slog.Logger) (*server, error) {
	store := db.store
	installation, err := store.EnsureInstallation(ctx)
	if err != nil {
		return nil, err
	}
	r := &server{opts: opts, log: log, clock: clock, store: store, listener: listener, registry: newRegistry(store)}
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
	calls, keys := &inventory.Calls{}, openKeys(ctx, opts, clock, log)
	kept := &states.Service{Store: store, Keys: keys}
	providers, err := newProviders(ctx, store, installation, opts, clock, log,
		replica.WatchCalls(r.registry, clock, r.traces.Tracer(), calls), terraforms{
			states: kept, url: accessURL(opts, listener.Addr()), ca: opts.AccessCA,
			installation: installation, clock: clock, log: log.Named("terraform"), found: &sync.Map{},
		})
	if err != nil {
		return nil, err
	}
	directory := entities.NewDirectory(store, keys, forgeKinds(), clock)
	last := context.WithoutCancel(ctx) // hints are heard and said until the last loop has ended
	r.pubsub = pubsub.New(last, store, clock, log.Named("pubsub"))
	r.replica = replica.New(last, replica.Parts{
		Name: opts.Replica, Installation: installation, Store: store, Clock: clock, Log: log, Registerer: r.registry,
		Publisher: r.pubsub, Providers: providers, Calls: calls, States: kept, Tick: opts.Tick, Tracer: tracer, Directory: directory,
		NameVictims:      logsDebug(opts),
		MaxWaitingClaims: opts.MaxWaitingClaims, MaxColdClaims: opts.MaxColdClaims,
		Lease: opts.hooks().Lease, Inventory: opts.hooks().Inventory,
		URL: accessURL(opts, listener.Addr()), CABundle: []byte(opts.AccessCA),
		Binaries: filepath.Join(opts.DataDir, "agents"), Keys: keys, SealKeys: opts.sealsKeys(), Webhook: opts.Notify,
		InstanceID: uuid.New(), Version: opts.Version, Address: listener.Addr().String(),
		AdvertiseURL: advertiseURL(opts, listener.Addr()), Streams: opts.Streams,
	})
	pages, err := site.Built()
	if err != nil {
		return nil, err
	}
	r.guard = serve.New(serve.Options{
		MaxConnections: opts.MaxConnections, MaxPerAddress: opts.MaxPerAddress, Trusted: opts.Proxies,
		Reserved: opts.portDomain.Reserved, Clock: clock, Registerer: r.registry,
	})
	r.http = &http.Server{
		Handler: r.guard.Handler(api.New(api.Options{
			Store: store, Auth: auth.NewAuthenticator(store, clock), Claims: r.replica.Claims, Passes: r.replica.Reconciler,
			Workspaces: r.replica.Writer, Templates: r.replica.Templates, Providers: providers, Installation: installation,
			Instances: r.replica.Instances, States: r.replica.States, StateAlone: r.replica.StateAlone, Inventory: r.replica.Inventory, Events: r.replica.Events, Sizes: r.replica.Sizes,
			Notifier: r.replica.Notifier, Hints: r.replica.Hints, Tracer: tracer,
			Ready: r.unready, StaleAfter: r.replica.Watchdog.Limit(), MetricsToken: opts.MetricsToken,
			Metrics: promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{Registry: r.registry}), Clock: clock, Log: log,
			Forges: &entities.Service{
				Store: store, Keys: keys, Directory: directory, SigningKeys: r.replica.Instances.Reseal,
				States: r.replica.States.Reseal,
			},
			Runners: r.replica.Runners, Webhooks: r.replica.Inbox, Tunnels: r.replica.Tunnels, Sessions: r.replica.Sessions,
			Version: opts.Version, Site: pages, AccessURL: accessURL(opts, listener.Addr()), LogRequests: logsDebug(opts),
			PortDomain: opts.portDomain,
		})),
		ConnContext:       r.guard.Context,
		ConnState:         r.guard.State,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.Stdlib(ctx, log.Named("http"), slog.LevelDebug),
	}
	if opts.Quickstart {
		if err := r.quickstart(ctx); err != nil {
			return nil, err
		}
	}
	return r, nil
}

var errStopping = errors.New("the replica was asked to stop")

// run starts everything and stops it in order.
func (r *server) run(ctx context.Context) error {
	token, created, err := auth.EnsureOwner(ctx, r.store, r.opts.DataDir)
	if err != nil {
		return xerrors.Errorf("make the owner's token: %w", err)
	}
	r.replica.Listen(r.pubsub)
	forget, err := r.leaveURL()
	if err != nil {
		return err
	}
	defer forget()
	r.sayHello(token, created)

	work, stopWork := context.WithCancelCause(context.WithoutCancel(ctx)) // it drains first
	defer stopWork(nil)
	r.replica.Start(work, r.replica.Loops()...)
	served := make(chan error, 1)
	go func() { served <- r.http.Serve(r.guard.Listener(r.listener)) }()

	select {
	case <-ctx.Done():
	case err = <-served:
	}
	r.stopping.Store(true) // unready from here on
	r.log.Info(context.WithoutCancel(ctx), "stopping")
	if err == nil {
		r.replica.Tunnels.Drain(ctx)
		r.drain()
	}
	stopWork(cmp.Or(err, errStopping))
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if shutdownErr := r.http.Shutdown(last); shutdownErr != nil {
		_ = r.http.Close() // long polls and streams that would not end
	}
	r.replica.Wait()
	r.pubsub.Close()
	if stopErr := r.traces.Stop(context.WithoutCancel(ctx)); stopErr != nil {
		r.log.Warn(context.WithoutCancel(ctx), "stop traces", slog.Error(stopErr))
	}
	left, cancelLeave := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancelLeave()
	if leaveErr := r.replica.Registered.Leave(left); leaveErr != nil {
		r.log.Warn(left, "leave the list of replicas", slog.Error(leaveErr))
	}
	if err != nil && !errors.Is(err, http.ErrServerClosed) {
		return xerrors.Errorf("serve: %w", err)
	}
	return nil
}

// drain lets a load balancer see that this replica is unready, before it refuses connections: one that the kernel has
// accepted for a server that is closing is reset, and its request lost.
func (r *server) drain() {
	if r.opts.Drain <= 0 {
		return
	}
	timer := r.clock.NewTimer(r.opts.Drain, "coderd", "drain")
	defer timer.Stop()
	<-timer.C
}

// unready says why requests should go elsewhere.
func (r *server) unready(ctx context.Context) []string {
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
func (r *server) sayHello(token string, created bool) {
	ctx := context.Background()
	r.log.Info(ctx, "ready", slog.F("address", r.listener.Addr().String()), slog.F("replica", r.opts.Replica),
		slog.F("version", r.opts.Version))
	made := ""
	if created {
		made = " (new)"
	}
	fmt.Fprintf(r.opts.Stdout, "Prewarm is at http://%s\nThe owner's token is in %s%s\n", r.listener.Addr(), token, made)
	if r.opts.Quickstart {
		command := cmp.Or(r.opts.Command, "prewarm")
		fmt.Fprintf(r.opts.Stdout, "Look:  %s preset list --watch\nTake:  %s claim quickstart/default --exec -- sh\n", command, command)
	}
}

// leaveURL leaves the address of this replica in its data directory, where the command line finds it next to the owner's
// token. forget removes it.
func (r *server) leaveURL() (forget func(), err error) {
	path := filepath.Join(r.opts.DataDir, "server-url")
	content := []byte(localURL(r.listener.Addr()) + "\n")
	if err := os.WriteFile(path+".next", content, 0o600); err != nil {
		return nil, xerrors.Errorf("write address of server: %w", err)
	}
	if err := os.Rename(path+".next", path); err != nil {
		return nil, xerrors.Errorf("write address of server: %w", err)
	}
	return func() {
		if is, err := os.ReadFile(path); err == nil && bytes.Equal(is, content) { // not that of a server that took over
			_ = os.Remove(path)
		}
	}, nil
}

// logsDebug says whether the log has lines at debug. Some cost something before the logger drops them.
func logsDebug(opts Options) bool { return opts.LogLevel == slog.LevelDebug }

// accessURL is where workspaces reach this replica. One that listens everywhere is reached on this machine at least.
func accessURL(opts Options, addr net.Addr) string {
	if opts.AccessURL != "" {
		return strings.TrimSuffix(opts.AccessURL, "/")
	}
	return localURL(addr)
}

// portDomain is where browsers reach ports, if that is safe.
func portDomain(ctx context.Context, opts Options, addr net.Addr, log slog.Logger) (api.PortDomain, error) {
	d, warning, err := api.NewPortDomain(opts.WorkspaceDomain, accessURL(opts, addr))
	if err != nil {
		return d, xerrors.Errorf("open ports for browsers: %w", err)
	}
	if warning != "" {
		log.Warn(ctx, "workspace domain shares its site with the page", slog.F("domain", opts.WorkspaceDomain), slog.F("why", warning))
	}
	return d, nil
}

// advertiseURL is where other replicas reach this one. One that listens everywhere does not know.
func advertiseURL(opts Options, addr net.Addr) string {
	if opts.Advertise != "" {
		return strings.TrimSuffix(opts.Advertise, "/")
	}
	host, _, _ := net.SplitHostPort(addr.String())
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return ""
	}
	return localURL(addr)
}

// localURL is the address of a listener, on this machine where it listens everywhere.
func localURL(addr net.Addr) string {
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

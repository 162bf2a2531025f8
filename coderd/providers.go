package coderd

import (
	"context"
	"encoding/json"
	"path/filepath"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker"
	"github.com/prewarm-dev/prewarm/coderd/provider/external"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts"
	"github.com/prewarm-dev/prewarm/coderd/provider/local"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database"
)

// refreshEvery bounds what a lost notification of changed providers costs.
const refreshEvery = 15 * time.Second

// providers are the registry and what keeps it as the database has it.
type providers struct {
	*provider.Registry
	store *database.Store
	clock quartz.Clock
	log   slog.Logger
	soon  hints.Bell
}

func newProviders(
	ctx context.Context, store *database.Store, installation uuid.UUID, opts Options, clock quartz.Clock, log slog.Logger,
	watch provider.Watch,
) (*providers, error) {
	p := &providers{store: store, clock: clock, log: log.Named("providers"), soon: hints.NewBell()}
	factories := map[string]provider.Factory{
		"local": func(config json.RawMessage) (provider.Provider, error) {
			return newLocal(config, opts.DataDir, clock, log)
		},
		"sim": func(config json.RawMessage) (provider.Provider, error) {
			return newSim(config, filepath.Join(opts.DataDir, "sim"), clock)
		},
		"external": func(config json.RawMessage) (provider.Provider, error) {
			return newExternal(ctx, config, installation, clock, log)
		},
		"hosts": func(config json.RawMessage) (provider.Provider, error) { return newHosts(config, clock, log) },
		"docker": func(config json.RawMessage) (provider.Provider, error) {
			return newDocker(ctx, config, opts.DataDir, clock, log)
		},
	}
	if opts.hooks().Wrap != nil {
		for kind, make := range factories {
			factories[kind] = func(config json.RawMessage) (provider.Provider, error) {
				made, err := make(config)
				if err != nil {
					return nil, err
				}
				return opts.hooks().Wrap(made), nil
			}
		}
	}
	p.Registry = provider.NewRegistry(factories, database.InTransaction)
	p.OnCall(watch)
	for _, kind := range []string{"local", "sim"} { // which work without any configuration
		if err := store.EnsureProvider(ctx, database.EnsureProviderParams{Name: kind, Kind: kind}); err != nil {
			return nil, xerrors.Errorf("ensure provider %s: %w", kind, err)
		}
	}
	return p, p.refresh(ctx)
}

// warn says where what runs in a workspace may not end with it, and where it may do more than it would if it were applied
// now.
func (p *providers) warn(ctx context.Context, store *database.Store) {
	old, err := store.TemplatesOfOldDefaults(ctx, database.TemplatesOfOldDefaultsParams{
		Kind: "docker", Defaults: provider.CurrentDefaults,
	})
	if err == nil && len(old) > 0 { // an error is told by whatever else asks the database
		p.log.Warn(ctx, "containers of templates that were applied before keep the privileges that their engine gives: "+
			"apply them with `privileges: {}`", slog.F("templates", old))
	}
	for _, name := range p.Names() {
		made, err := p.Get(name)
		if err != nil {
			continue // told where it is used
		}
		if i, ok := provider.As[provider.Isolator](made); ok {
			if err := i.Isolated(); err != nil {
				p.log.Warn(ctx, "workspaces are not isolated", slog.F("provider", name), slog.Error(err))
			}
		}
	}
}

func newLocal(config json.RawMessage, dataDir string, clock quartz.Clock, log slog.Logger) (provider.Provider, error) {
	opts, err := local.ParseConfig(config)
	if err != nil {
		return nil, err
	}
	if opts.Root == "" {
		opts.Root = filepath.Join(dataDir, "local")
	}
	opts.Private, opts.Clock, opts.Logger = []string{dataDir}, clock, log.Named("local")
	return local.New(opts)
}

func newSim(config json.RawMessage, root string, clock quartz.Clock) (provider.Provider, error) {
	opts, err := sim.Config(config)
	if err != nil {
		return nil, err
	}
	if opts.Root == "" {
		opts.Root = root
	}
	opts.Clock = clock
	return sim.New(opts)
}

// newExternal asks the executable what it is, and so takes as long as that does.
func newExternal(
	ctx context.Context, config json.RawMessage, installation uuid.UUID, clock quartz.Clock, log slog.Logger,
) (provider.Provider, error) {
	parsed, err := external.ParseConfig(config)
	if err != nil {
		return nil, err
	}
	p, err := external.New(ctx, external.Options{
		Config: parsed, Installation: installation, Clock: clock, Logger: log.Named("external"),
	})
	if err != nil {
		return nil, err
	}
	return p.Offered(), nil
}

// newHosts reads the private key, and connects to nothing yet.
func newHosts(config json.RawMessage, clock quartz.Clock, log slog.Logger) (provider.Provider, error) {
	parsed, err := hosts.ParseConfig(config)
	if err != nil {
		return nil, err
	}
	return hosts.New(hosts.Options{Config: parsed, Clock: clock, Logger: log.Named("hosts")}), nil
}

// newDocker asks the engine who it is, within a few seconds.
func newDocker(ctx context.Context, config json.RawMessage, dataDir string, clock quartz.Clock, log slog.Logger) (provider.Provider, error) {
	parsed, err := docker.ParseConfig(config)
	if err != nil {
		return nil, err
	}
	p, err := docker.New(ctx, docker.Options{
		Config: parsed, Clock: clock, Logger: log.Named("docker"), Private: []string{dataDir},
	})
	if err != nil {
		return nil, err // not p: a nil *Provider in an interface is not nil
	}
	return p, nil
}

// run keeps the registry current until ctx ends.
func (p *providers) run(ctx context.Context) {
	lease.Loop{
		Clock: p.clock, Log: p.log, What: "read providers", Tags: []string{"providers", "refresh"}, Every: refreshEvery,
		Wake: p.soon, Later: true,
	}.Run(ctx, p.refresh)
}

func (p *providers) refresh(ctx context.Context) error {
	rows, err := p.store.Providers(ctx)
	if err != nil {
		return xerrors.Errorf("read providers: %w", err)
	}
	have := make([]provider.Row, 0, len(rows))
	for _, row := range rows {
		have = append(have, provider.Row{Name: row.Name, Kind: row.Kind, Config: row.Config})
	}
	removed, err := p.store.RemovedProviders(ctx)
	if err != nil {
		return xerrors.Errorf("read removed providers: %w", err)
	}
	for _, name := range removed {
		have = append(have, provider.Row{Name: name, Removed: true})
	}
	p.Update(have)
	return nil
}

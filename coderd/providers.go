package coderd

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker"
	"github.com/prewarm-dev/prewarm/coderd/provider/external"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts"
	"github.com/prewarm-dev/prewarm/coderd/provider/kubernetes"
	"github.com/prewarm-dev/prewarm/coderd/provider/local"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/serverdb"
)

// newProviders makes the registry of the kinds that there are, as the database has it.
func newProviders(
	ctx context.Context, store *database.Store, installation uuid.UUID, opts Options, clock quartz.Clock, log slog.Logger,
	watch provider.Watch, runs terraforms,
) (*provider.Registry, error) {
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
		"kubernetes": func(config json.RawMessage) (provider.Provider, error) { return newKubernetes(ctx, config, clock, log) },
		"terraform":  func(config json.RawMessage) (provider.Provider, error) { return runs.make(ctx, config) },
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
	registry := provider.NewRegistry(factories, database.InTransaction)
	registry.OnCall(watch)
	for _, kind := range []string{"local", "sim"} { // which work without any configuration
		if err := serverdb.New(store).EnsureProvider(ctx, serverdb.EnsureProviderParams{Name: kind, Kind: kind}); err != nil {
			return nil, xerrors.Errorf("ensure provider %s: %w", kind, err)
		}
	}
	registry.From(context.WithoutCancel(ctx), clock, replica.Configured(store))
	return registry, registry.Read(ctx)
}

// warnOfProviders says where what runs in a workspace may not end with it, and where it may do more than it would if it were applied
// now.
func warnOfProviders(ctx context.Context, store *database.Store, registry *provider.Registry, log slog.Logger) {
	old, err := serverdb.New(store).TemplatesOfOldDefaults(ctx, serverdb.TemplatesOfOldDefaultsParams{
		Kind: "docker", Defaults: provider.CurrentDefaults,
	})
	if err == nil && len(old) > 0 { // an error is told by whatever else asks the database
		log.Warn(ctx, "containers of templates that were applied before keep the privileges that their engine gives: "+
			"apply them with `privileges: {}`", slog.F("templates", old))
	}
	for _, name := range registry.Names() {
		made, err := registry.Get(name)
		if err != nil {
			continue // told where it is used
		}
		if i, ok := provider.As[provider.Isolator](made); ok {
			if err := i.Isolated(); err != nil {
				log.Warn(ctx, "workspaces are not isolated", slog.F("provider", name), slog.Error(err))
			}
		}
	}
}

func newLocal(config json.RawMessage, dataDir string, clock quartz.Clock, log slog.Logger) (provider.Provider, error) {
	opts, err := local.ParseConfig(config)
	if err != nil {
		return nil, err
	}
	opts.Root = cmp.Or(opts.Root, filepath.Join(dataDir, "local"))
	opts.Private, opts.Clock, opts.Logger = []string{dataDir}, clock, log.Named("local")
	return local.New(opts)
}

func newSim(config json.RawMessage, root string, clock quartz.Clock) (provider.Provider, error) {
	opts, err := sim.Config(config)
	if err != nil {
		return nil, err
	}
	opts.Root = cmp.Or(opts.Root, root)
	opts.Clock = clock
	p, err := sim.New(opts)
	if err != nil {
		return nil, err
	}
	return p.Offered(), nil
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

// newKubernetes asks the API server whether it lists pods, within a few seconds.
func newKubernetes(ctx context.Context, config json.RawMessage, clock quartz.Clock, log slog.Logger) (provider.Provider, error) {
	parsed, err := kubernetes.ParseConfig(config)
	if err != nil {
		return nil, err
	}
	p, err := kubernetes.New(ctx, kubernetes.Options{Config: parsed, Clock: clock, Logger: log.Named("kubernetes")})
	if err != nil {
		return nil, err // as above
	}
	return p, nil
}

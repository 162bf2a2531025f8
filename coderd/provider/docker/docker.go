package docker

import (
	"cmp"
	"context"
	"encoding/json"
	"os"
	"strings"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/moby/moby/client"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Options are what a Provider needs.
type Options struct {
	Config Config
	Clock  quartz.Clock
	Logger slog.Logger
	// Private are directories of the server, which no workspace may mount.
	Private []string
}

// Provider keeps workspaces as containers of one engine. Any number of them may use the same engine.
type Provider struct {
	config Config
	host   string
	client *client.Client
	site   string
	// rotates is whether the engine's logs take sizes.
	rotates bool
	machine string // the engine's architecture, as uname has it
	images  pulls
	clock   quartz.Clock
	logger  slog.Logger
}

var _ interface {
	provider.Provider
	provider.Sited
	provider.AgentHost
	provider.Execer
	provider.Logger
	provider.Stopper
	provider.Resetter
} = (*Provider)(nil)

// helloTimeout bounds the questions with which a provider begins.
const helloTimeout = 10 * time.Second

// New asks the engine who it is. It is an error if it does not answer.
func New(ctx context.Context, opts Options) (*Provider, error) {
	p := &Provider{config: opts.Config, host: opts.Config.Host, clock: opts.Clock, logger: opts.Logger}
	p.clock = cmp.Or(p.clock, quartz.NewReal())
	p.host = cmp.Or(p.host, defaultHost(os.Getenv))
	p.config.Host, p.config.private = p.host, opts.Private
	options := []client.Opt{client.WithHost(p.host), client.WithUserAgent("prewarm")}
	if tls := p.config.TLS; tls != (TLS{}) {
		options = append(options, client.WithTLSClientConfig(tls.CAFile, tls.CertFile, tls.KeyFile))
	}
	var err error
	if p.client, err = client.New(options...); err != nil {
		return nil, xerrors.Errorf("connect to container engine at %s: %w", p.host, err)
	}
	if err := p.hello(ctx); err != nil {
		_ = p.client.Close()
		return nil, err
	}
	p.prepull(ctx)
	return p, nil
}

func (p *Provider) hello(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, helloTimeout)
	defer cancel()
	info, err := p.client.Info(ctx, client.InfoOptions{})
	if err != nil {
		return xerrors.Errorf("ask container engine at %s: %w", p.host, p.mapped(ctx, err))
	}
	if info.Info.OSType != "linux" {
		return xerrors.Errorf("ask container engine at %s: its containers are of %s, not of Linux", p.host, info.Info.OSType)
	}
	p.machine = info.Info.Architecture
	p.rotates = info.Info.LoggingDriver == "json-file" || info.Info.LoggingDriver == "local"
	version, err := p.client.ServerVersion(ctx, client.ServerVersionOptions{})
	if err != nil {
		return xerrors.Errorf("ask container engine at %s: %w", p.host, p.mapped(ctx, err))
	}
	p.site = "docker-" + info.Info.ID
	for _, component := range version.Components {
		if strings.Contains(component.Name, "Podman") {
			p.site = podmanSite(info.Info.Name, p.host) // its engine has another id at each question
		}
	}
	return nil
}

// podmanSite identifies a Podman by machine and socket.
func podmanSite(name, host string) string {
	if id, err := os.ReadFile("/etc/machine-id"); err == nil && strings.HasPrefix(host, "unix:") {
		name = strings.TrimSpace(string(id))
	}
	return "podman-" + name + "-" + host
}

// Site identifies the engine.
func (p *Provider) Site() string { return p.site }

// HostsAgent marks this as a provider that runs agents: see agent.go.
func (*Provider) HostsAgent() {}

// Validate reports what is wrong with a spec, or more than the configuration allows.
func (p *Provider) Validate(raw json.RawMessage, parameters map[string]string) []provider.Problem {
	_, problems := parseSpec(p.config, raw, parameters)
	return problems
}

// specOf checks a request before anything is done for it.
func (p *Provider) specOf(req provider.CreateRequest) (spec, error) {
	if err := provider.CheckName(req.Name); err != nil {
		return spec{}, err
	}
	s, problems := parseSpec(p.config, req.Spec, req.Parameters)
	return s, provider.SpecError(problems)
}

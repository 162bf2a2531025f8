package external

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"cdr.dev/slog"
	"github.com/cloudbase/garm-provider-common/execution/common"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Options are what a Provider needs.
type Options struct {
	Config Config
	// Installation is whose resources Get, Ready and Delete are about: a Ref does not say.
	Installation uuid.UUID
	Clock        quartz.Clock
	Logger       slog.Logger
}

// Provider runs one executable with one configuration.
type Provider struct {
	config       Config
	defaults     json.RawMessage
	installation uuid.UUID
	clock        quartz.Clock
	log          slog.Logger
	facts        facts
	recent       *recent
}

var _ interface {
	provider.Provider
	provider.Stopper
	provider.AgentHost
	provider.TokenTaker
	provider.Spoken
} = (*Provider)(nil)

// New asks the executable what it is (within Timeouts.Probe), which must work for there to be a provider.
func New(ctx context.Context, opts Options) (*Provider, error) {
	if opts.Installation == uuid.Nil {
		return nil, xerrors.New("make provider: no installation is given")
	}
	opts.Clock = cmp.Or(opts.Clock, quartz.NewReal())
	p := &Provider{
		config: opts.Config, defaults: opts.Config.Defaults, installation: opts.Installation, clock: opts.Clock,
		log: opts.Logger,
	}
	p.recent = newRecent(p)
	most := opts.Config.Timeouts.of(common.GetVersionCommand)
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	var err error
	if p.facts, err = p.probe(ctx); errors.Is(err, context.DeadlineExceeded) {
		err = xerrors.Errorf("it did not answer within %s", most)
	}
	if err != nil {
		return nil, xerrors.Errorf("ask %s what it is: %w", opts.Config.Executable, err)
	}
	if problems := new(spec).overlay(p.defaults); len(problems) > 0 {
		return nil, xerrors.Errorf("defaults: %w", provider.SpecError(problems))
	}
	return p, nil
}

// Offered is the provider with no more methods than its configuration says that it has a use for.
func (p *Provider) Offered() provider.Provider {
	type always interface {
		provider.Provider
		provider.TokenTaker
		provider.Spoken
		provider.RunnerTaker
		provider.RunnerNamer
	}
	hosts := p.takesScript()
	switch {
	case p.config.NoStop && hosts:
		return struct {
			always
			provider.AgentHost
		}{p, p}
	case p.config.NoStop:
		return struct{ always }{p}
	case hosts:
		return p
	default:
		return struct {
			always
			provider.Stopper
		}{p, p}
	}
}

// takesScript says whether an instance runs the script that it is given at its first boot: by the configuration, else by the
// executable's schema.
func (p *Provider) takesScript() bool {
	if p.config.InstallScript != "" {
		return p.config.InstallScript == installTemplate
	}
	return p.facts.extraSpecs.has(installTemplate)
}

// Spoken says which version of the protocol is spoken, and what follows.
func (p *Provider) Spoken() provider.Protocol {
	said := provider.Protocol{Version: p.facts.protocol, Schema: p.facts.extraSpecs != nil}
	switch {
	case p.takesScript():
		said.InstallScript = installTemplate
	case p.config.InstallScript == noScript:
		said.NoAgent = "its configuration says install_script: none"
	case said.Schema:
		said.NoAgent = "the schema of its executable has no " + installTemplate + ", by which an agent is installed"
	default:
		said.NoAgent = "its executable, which speaks " + said.Version + ", gives no schema that says whether it takes " + installTemplate +
			", by which an agent is installed. Run prewarm provider check to find out. If it does, set install_script: " + installTemplate +
			" in the provider's config"
	}
	return said
}

// HostsAgent marks this as a provider that runs agents, where the executable takes a script that installs one: see Offered.
func (*Provider) HostsAgent() {}

// TakesTokens marks this as a provider that hands each instance its token: the protocol has a field for it, and user data
// that was written for GARM uses it.
func (*Provider) TakesTokens() {}

// TakesRunners marks this as a provider that is told the group, the labels and the downloads of a forge's runner: the protocol
// has fields for them.
func (*Provider) TakesRunners() {}

// RunnerName is the name at the executable, by which user data that was written for GARM registers.
func (*Provider) RunnerName(name string, id uuid.UUID) string { return resourceName(name, id) }

// Version is what the executable calls itself, empty if it does not say.
func (p *Provider) Version() string { return p.facts.version }

// Interface is the version of the protocol that is spoken with it, v0.1.0 or v0.1.1.
func (p *Provider) Interface() string { return p.facts.protocol }

// Validate reports what is wrong with a spec, by the executable's own schema where it has one.
func (p *Provider) Validate(raw json.RawMessage, parameters map[string]string) []provider.Problem {
	_, problems := p.parseSpec(raw, parameters)
	return problems
}

// controller is the installation's id at the executable.
func (p *Provider) controller(installation uuid.UUID) string {
	return cmp.Or(p.config.ControllerID, installation.String())
}

// pool is the installation's one pool at the executable. It must never change, or the listing loses what is there: so it
// depends on nothing that a person could rename.
func (p *Provider) pool(installation uuid.UUID) string {
	if p.config.PoolID != "" {
		return p.config.PoolID
	}
	return uuid.NewSHA1(installation, []byte("prewarm pool")).String()
}

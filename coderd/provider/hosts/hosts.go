package hosts

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/program"
	"github.com/prewarm-dev/prewarm/coderd/wait"
)

// Options are what a Provider needs.
type Options struct {
	Config Config // from ParseConfig
	Clock  quartz.Clock
	Logger slog.Logger
}

// Provider is one process's access to the fleet.
type Provider struct {
	config      Config
	clock       quartz.Clock
	log         slog.Logger
	machines    map[string]*Host
	sums        program.Sums
	connections *connections
}

var _ interface {
	provider.Provider
	provider.AgentHost
	provider.Reserver
	provider.Resetter
	provider.Execer
	provider.Logger
} = (*Provider)(nil)

// New makes access to the fleet of a configuration. It connects to nothing yet.
func New(opts Options) *Provider {
	p := &Provider{config: opts.Config, clock: opts.Clock, log: opts.Logger, machines: map[string]*Host{}}
	p.clock = cmp.Or(p.clock, quartz.NewReal())
	for i := range p.config.Machines {
		p.machines[p.config.Machines[i].Name] = &p.config.Machines[i]
	}
	p.connections = newConnections(p)
	return p
}

// Phases of a machine; see the package comment.
const (
	phaseClean     = "clean"
	phasePreparing = "preparing"
	phasePrepared  = "prepared"
	phaseFailed    = "failed"
	phaseDirty     = "dirty"
)

const (
	pollFirst = 50 * time.Millisecond // between questions to a machine that is at work
	pollMost  = 2 * time.Second
)

// Validate reports what is wrong with a spec.
func (p *Provider) Validate(raw json.RawMessage, parameters map[string]string) []provider.Problem {
	_, problems := parseSpec(raw, parameters)
	return problems
}

// Create takes the machine for the workspace and has it prepared, or finds that this was done before. It does not wait for
// the preparation: Ready asks for that.
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	none := provider.Instance{}
	if err := provider.CheckName(req.Name); err != nil {
		return none, err
	}
	r, m, err := p.request("create", req)
	if err != nil {
		return none, err
	}
	a, err := p.askWithAgent(ctx, m, r)
	if err == nil {
		err = m.refusal(a)
	}
	if err != nil {
		return none, err
	}
	return instance(m, a), nil
}

// refusal is why a machine did not do what it was asked; nil where it did.
func (m *Host) refusal(a answer) error {
	switch a.outcome {
	case "ok":
		return nil
	case "absent":
		return provider.ErrNotFound
	case "conflict":
		return provider.ErrConflict
	case "superseded":
		return provider.ErrSuperseded
	case "taken":
		return m.says(xerrors.Errorf("%s: %w", a.detail, provider.ErrMachineTaken))
	case "dirty":
		return m.says(xerrors.Errorf("it is not clean after its reset: %s", a.detail))
	case "agent":
		return m.says(errAgentGone)
	}
	return m.says(errors.New(a.detail)) // failed, busy
}

// request is what a create or reset sends, and to which machine.
func (p *Provider) request(op string, req provider.CreateRequest) (request, *Host, error) {
	s, problems := parseSpec(req.Spec, req.Parameters)
	if err := provider.SpecError(problems); err != nil {
		return request{}, nil, err
	}
	m, ok := p.machines[req.Machine]
	if !ok {
		return request{}, nil, xerrors.Errorf("machine %q is not configured: %w", req.Machine, provider.ErrNoMachine)
	}
	r := request{
		op: op, ref: provider.Ref{Name: req.Name, WorkspaceID: req.Tags.WorkspaceID}, tags: req.Tags,
		template: req.Template, preset: req.Preset, files: files(s, environment(m, s, req), p.config.Directory),
	}
	return r, m, p.withAgent(&r, m, req.Callback)
}

// says is an error of the machine's own.
func (m *Host) says(err error) error {
	return xerrors.Errorf("machine %s (%s): %w", m.Name, m.place(), err)
}

// Get looks a workspace up.
func (p *Provider) Get(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	m, a, err := p.find(ctx, ref)
	if err != nil {
		return provider.Instance{}, err
	}
	return instance(m, a), nil
}

// Ready asks whether the machine is prepared, and runs the template's check.
func (p *Provider) Ready(ctx context.Context, ref provider.Ref) (provider.Readiness, error) {
	_, a, err := p.on(ctx, ref, request{op: "ready", ref: ref})
	if err != nil {
		return provider.Readiness{}, err
	}
	switch a.outcome {
	case "ready":
		return provider.Readiness{Ready: true}, nil
	case "over":
		return provider.Readiness{Failed: true, Detail: a.detail}, nil
	}
	return provider.Readiness{Detail: a.detail}, nil
}

// Delete has the machine reset, and returns when that is proven. It goes on where an earlier one was interrupted; a reset
// that failed is tried once more.
func (p *Provider) Delete(ctx context.Context, ref provider.Ref) error {
	m, a, err := p.on(ctx, ref, request{op: "delete", ref: ref})
	if errors.Is(err, provider.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	// By now it is known whose it is: who gets the machine next is not to be asked for.
	ref = provider.Ref{Name: a.name, WorkspaceID: a.tags.WorkspaceID}
	return p.until(ctx, func() (bool, error) {
		a, err := p.ask(ctx, m, request{op: "look"})
		switch {
		case err != nil:
			return false, err
		case !a.of(ref):
			return true, nil
		case a.phase == phaseDirty:
			return false, m.says(xerrors.Errorf("it is not clean after its reset: %s", a.fault))
		}
		_, err = p.ask(ctx, m, request{op: "delete", ref: ref}) // starts what nobody works on
		return false, err
	})
}

// of says whether the machine holds the workspace.
func (a answer) of(ref provider.Ref) bool {
	return a.phase != phaseClean && a.name == ref.Name && a.tags.WorkspaceID == ref.WorkspaceID
}

// Reset makes the next incarnation of a workspace on its machine, with the same proof that nothing is left as Delete has.
func (p *Provider) Reset(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	var done provider.Instance
	if req.Machine == "" {
		m, _, err := p.find(ctx, provider.Ref{Name: req.Name})
		if err != nil {
			return done, err
		}
		req.Machine = m.Name
	}
	r, m, err := p.request("reset", req)
	if err != nil {
		return done, err
	}
	r.again = true
	err = p.until(ctx, func() (bool, error) {
		a, err := p.askWithAgent(ctx, m, r)
		r.again = false
		if err != nil || a.outcome == "waiting" {
			return false, err
		}
		done = instance(m, a)
		return true, m.refusal(a)
	})
	return done, err
}

// until repeats a question until it is answered.
func (p *Provider) until(ctx context.Context, ask func() (bool, error)) error {
	for pause := pollFirst; ; pause = min(pause*3/2, pollMost) {
		if over, err := ask(); over || err != nil {
			return err
		}
		if err := wait.For(ctx, p.clock, pause, "hosts", "poll"); err != nil {
			return err
		}
	}
}

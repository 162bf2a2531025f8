package terraform

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Stored is what the newest state of a workspace says. One whose state has nothing is not stored, unless something is unsure.
type Stored struct {
	WorkspaceID uuid.UUID
	Name        string
	Incarnation int32
	Outputs     map[string]json.RawMessage // their values; some are secret
	Resources   []string                   // addresses, of many only the first
	// Unsure are addresses of resources that may exist though no state names them: an apply was cut off that was to create them.
	Unsure    []string
	CreatedAt time.Time
}

// States are those that runs have stored, and the modules that they ran. Where there is none, the error is provider.ErrNotFound.
type States interface {
	Of(ctx context.Context, workspaceID uuid.UUID) (Stored, error)
	Named(ctx context.Context, name string) (Stored, error)
	All(ctx context.Context) ([]Stored, error)
	// KeepModule stores what a workspace is made with, for the run of a token, and keeps the archive of that digest, where there is one.
	KeepModule(ctx context.Context, workspaceID uuid.UUID, token string, module []byte, archive string) error
	// Archive is one that people have uploaded, by its digest.
	Archive(ctx context.Context, digest string) ([]byte, error)
	Module(ctx context.Context, workspaceID uuid.UUID) ([]byte, error)
	// State is the newest.
	State(ctx context.Context, workspaceID uuid.UUID) ([]byte, error)
	// Applying stores, for the run of a token, the addresses that an apply is about to create. Each is unsure until a state names it.
	Applying(ctx context.Context, workspaceID uuid.UUID, token string, addresses []string) error
	// Applied says that the apply came to its end, so that of these addresses only those are unsure that were so before.
	Applied(ctx context.Context, workspaceID uuid.UUID, token string, unsure []string) error
	// AppendOutput stores what the run of a token has said, for as long as it is not too much.
	AppendOutput(ctx context.Context, workspaceID uuid.UUID, token, text string) error
	// Output is what was stored of it after a place, from 0, and the place of its end.
	Output(ctx context.Context, workspaceID uuid.UUID, after int64) (text string, end int64, err error)
	// WorkIsDue says whether a worker is at the workspace, or will be, so that more output comes.
	WorkIsDue(ctx context.Context, workspaceID uuid.UUID) (bool, error)
}

// Provider makes workspaces by applying modules. It is safe for concurrent use.
type Provider struct {
	Runner       *Runner
	States       States
	StateURL     string        // where runs reach their state
	StateCA      string        // PEM: what to trust that by; empty: the usual
	Installation uuid.UUID     // whose states these are
	LookEvery    time.Duration // how often each workspace is looked at for drift; 0: never

	turns provider.Turns // of workspaces
}

var _ interface {
	provider.Provider
	provider.StateTaker
	provider.ArchiveTaker
	provider.AgentHost
	provider.Handover
	provider.Composed
	provider.Drifter
	provider.MakingLogger
} = (*Provider)(nil)

// HostsAgent marks this as a provider that runs agents: in modules that use the provider `coder` (coder).
func (*Provider) HostsAgent() {}

// LogsMaking marks this as a provider whose output is that of the runs: it begins with the plan.
func (*Provider) LogsMaking() {}

// TakeTurn implements provider.StateTaker: each Create and Delete is a run, and the next one ends the token of the one before.
func (p *Provider) TakeTurn(ctx context.Context, workspaceID uuid.UUID) (done func(), err error) {
	return p.turns.Take(ctx, workspaceID.String())
}

// Validate implements provider.Provider. What is in the files of a module is for Terraform to say.
func (*Provider) Validate(spec json.RawMessage, parameters map[string]string) []provider.Problem {
	_, problems := parseSpec(spec, parameters)
	return problems
}

// Create plans from what the state has, and applies that. After an apply that was cut off it does neither (doubt).
func (p *Provider) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	if err := ctx.Err(); err != nil {
		return provider.Instance{}, err
	}
	if err := provider.CheckName(req.Name); err != nil {
		return provider.Instance{}, err
	}
	module, problems := parseSpec(req.Spec, req.Parameters)
	if err := provider.SpecError(problems); err != nil {
		return provider.Instance{}, err
	}
	there, err := p.States.Named(ctx, req.Name)
	switch {
	case err == nil && there.WorkspaceID != req.Tags.WorkspaceID:
		return provider.Instance{}, provider.ErrConflict
	case err != nil && !errors.Is(err, provider.ErrNotFound):
		return provider.Instance{}, err
	case len(there.Unsure) > 0 && !module.Idempotent:
		return provider.Instance{}, doubt(there)
	}
	module.Workspace = workspace{
		Name: req.Name, ID: req.Tags.WorkspaceID, Incarnation: req.Tags.Incarnation, Outputs: module.Outputs,
	}
	opened, err := p.open(ctx, module)
	if err != nil {
		return provider.Instance{}, err
	}
	if module.Environment, err = p.coder(req, opened.Files); err != nil {
		return provider.Instance{}, err
	}
	if module.HandsOver && module.Environment == nil {
		return provider.Instance{}, notOfCoder
	}
	encoded, err := module.encode()
	if err != nil {
		return provider.Instance{}, err
	}
	if err := p.States.KeepModule(ctx, req.Tags.WorkspaceID, req.State.Token, encoded, module.Archive); err != nil {
		return provider.Instance{}, err
	}
	err = p.run(ctx, module, req.State, func(run *Run, output io.Writer) error {
		return p.apply(ctx, run, req.Tags.WorkspaceID, there.Unsure, output, nil)
	})
	if err != nil {
		return provider.Instance{}, err
	}
	made, err := p.States.Of(ctx, req.Tags.WorkspaceID)
	if err != nil {
		return provider.Instance{}, xerrors.Errorf("read what was made: %w", err)
	}
	return p.instance(made)
}

// run does something with a module in a run of its own, whose output is the workspace's.
func (p *Provider) run(ctx context.Context, m Module, state provider.State, do func(run *Run, output io.Writer) error) error {
	output := p.record(ctx, m.Workspace.ID, state.Token)
	defer output.end()
	backend := Backend{URL: p.StateURL, CA: p.StateCA, WorkspaceID: state.User, Token: state.Token}
	return p.within(ctx, m, backend, output, func(run *Run) error { return do(run, output) })
}

// within does something in a run, which it opens and prepares.
func (p *Provider) within(ctx context.Context, m Module, at Backend, output io.Writer, do func(*Run) error) (err error) {
	if m, err = p.open(ctx, m); err != nil {
		return err
	}
	leave, err := p.Runner.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	run, err := p.Runner.Open(m, at)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if err := run.Init(ctx, output); err != nil {
		return err
	}
	return do(run)
}

// Get implements provider.Provider. It asks the state, and nobody else.
func (p *Provider) Get(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	is, err := p.find(ctx, ref)
	if err != nil {
		return provider.Instance{}, err
	}
	return p.instance(is)
}

func (p *Provider) find(ctx context.Context, ref provider.Ref) (is Stored, err error) {
	if err := ctx.Err(); err != nil {
		return is, err
	}
	id, err := idOf(ref)
	switch {
	case err != nil:
		return is, err
	case id == uuid.Nil:
		is, err = p.States.Named(ctx, ref.Name)
	default:
		is, err = p.States.Of(ctx, id)
	}
	if err == nil && ref.Name != "" && ref.Name != is.Name {
		err = provider.ErrNotFound
	}
	return is, err
}

// idOf is that of the workspace which is meant; uuid.Nil: it is named only.
func idOf(ref provider.Ref) (uuid.UUID, error) {
	if ref.ProviderID == "" {
		return ref.WorkspaceID, nil
	}
	id, err := uuid.Parse(ref.ProviderID)
	if err != nil || ref.WorkspaceID != uuid.Nil && ref.WorkspaceID != id {
		return uuid.Nil, provider.ErrNotFound
	}
	return id, nil
}

// List implements provider.Provider.
func (p *Provider) List(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	if err := ctx.Err(); err != nil || installation != p.Installation {
		return nil, err
	}
	all, err := p.States.All(ctx)
	if err != nil {
		return nil, err
	}
	instances := make([]provider.Instance, len(all))
	for i, is := range all {
		if instances[i], err = p.instance(is); err != nil {
			return nil, err
		}
		instances[i].Environment = nil
	}
	return instances, nil
}

// Resources implements provider.Composed: what the state names.
func (p *Provider) Resources(ctx context.Context, ref provider.Ref) ([]string, error) {
	is, err := p.find(ctx, ref)
	return is.Resources, err
}

// Ready implements provider.Provider: what an output of the module says, or else that the apply came to its end.
func (p *Provider) Ready(ctx context.Context, ref provider.Ref) (provider.Readiness, error) {
	is, err := p.find(ctx, ref)
	if err != nil {
		return provider.Readiness{}, err
	}
	w, whole, err := is.workspace()
	if err != nil {
		return provider.Readiness{}, err
	}
	if !whole {
		return provider.Readiness{Detail: "its apply has not come to its end"}, nil
	}
	ready := true
	if name := w.Outputs.Ready; name != "" {
		if err := is.output(name, &ready, "true or false"); err != nil {
			return provider.Readiness{Failed: true, Detail: err.Error()}, nil //nolint:nilerr // it is the answer
		}
	}
	if !ready {
		return provider.Readiness{Failed: true, Detail: fmt.Sprintf("output %q is not true", w.Outputs.Ready)}, nil
	}
	return provider.Readiness{Ready: true}, nil
}

// Delete destroys all that the state has, with the module that made it. What is unsure beside is for a person to end (doubt), but where
// creating it again has the state name it.
func (p *Provider) Delete(ctx context.Context, ref provider.Ref) error {
	is, err := p.find(ctx, ref)
	if errors.Is(err, provider.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	module, err := p.made(ctx, is.WorkspaceID)
	if err != nil {
		return err
	}
	var again error
	err = p.run(ctx, module, ref.State, func(run *Run, output io.Writer) error {
		if len(is.Unsure) > 0 && module.Idempotent {
			again = p.apply(ctx, run, is.WorkspaceID, is.Unsure, output, nil)
		}
		return run.Destroy(ctx, output)
	})
	left, lost := p.States.Of(ctx, is.WorkspaceID)
	switch {
	case errors.Is(lost, provider.ErrNotFound):
		return err
	case lost != nil:
		return errors.Join(err, again, xerrors.Errorf("read what is left: %w", lost))
	case len(left.Unsure) > 0:
		return errors.Join(err, again, doubt(left))
	case err == nil:
		err = xerrors.New("after it was destroyed, its state has something left")
	}
	return errors.Join(err, again)
}

// workspace is what an apply puts into the state as an output, so that a state says whose it is and how it is read.
type workspace struct {
	Name        string    `json:"name"`
	ID          uuid.UUID `json:"id"`
	Incarnation int32     `json:"incarnation"`
	Outputs     Outputs   `json:"outputs"`
}

// workspaceOutput is the name of that output.
const workspaceOutput = "prewarm_workspace"

// workspace is false where no apply has come to its end.
func (s Stored) workspace() (w workspace, whole bool, err error) {
	raw, whole := s.Outputs[workspaceOutput]
	if !whole {
		return w, false, nil
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		return w, false, xerrors.Errorf("decode output %s of workspace %s: %w", workspaceOutput, s.WorkspaceID, err)
	}
	return w, true, nil
}

// output reads one of the module's, which must be like shape says.
func (s Stored) output(name string, into any, shape string) error {
	raw, there := s.Outputs[name]
	if !there {
		return xerrors.Errorf("the module has no output %q", name)
	}
	if json.Unmarshal(raw, into) != nil {
		return xerrors.Errorf("output %q is not %s", name, shape)
	}
	return nil
}

func (p *Provider) instance(is Stored) (provider.Instance, error) {
	i := provider.Instance{
		ProviderID: is.WorkspaceID.String(), Name: is.Name, CreatedAt: is.CreatedAt, Status: provider.StatusUnknown,
		Tags: provider.Tags{Installation: p.Installation, WorkspaceID: is.WorkspaceID, Incarnation: is.Incarnation},
	}
	if len(is.Unsure) > 0 {
		i.Status, i.Fault = provider.StatusError, is.doubt()
		return i, nil
	}
	w, whole, err := is.workspace()
	if err != nil || !whole {
		return i, err
	}
	i.Status, i.Tags.Incarnation = provider.StatusRunning, w.Incarnation
	if w.Outputs.Environment != "" {
		err = is.output(w.Outputs.Environment, &i.Environment, "a mapping of texts")
	}
	if w.Outputs.Addresses != "" && err == nil {
		i.Addresses, err = is.addresses(w.Outputs.Addresses)
	}
	if err != nil {
		i.Status, i.Fault = provider.StatusError, err.Error()
	}
	return i, nil
}

func (s Stored) addresses(name string) (all []provider.Address, err error) {
	const shape = "a text, a list of texts or a mapping of texts"
	var one string
	if s.output(name, &one, shape) == nil {
		return []provider.Address{{Type: "tcp", Address: one}}, nil
	}
	var named map[string]string
	if s.output(name, &named, shape) == nil {
		for _, kind := range slices.Sorted(maps.Keys(named)) {
			all = append(all, provider.Address{Type: kind, Address: named[kind]})
		}
		return all, nil
	}
	var list []string
	if err := s.output(name, &list, shape); err != nil {
		return nil, err
	}
	for _, address := range list {
		all = append(all, provider.Address{Type: "tcp", Address: address})
	}
	return all, nil
}

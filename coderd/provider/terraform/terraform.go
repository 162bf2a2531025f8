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

// Stored is what the newest state of a workspace says. One whose state has nothing is not stored.
type Stored struct {
	WorkspaceID uuid.UUID
	Name        string
	Incarnation int32
	Outputs     map[string]json.RawMessage // their values; some are secret
	CreatedAt   time.Time
}

// States are those that runs have stored, and the modules that they ran. Where there is none, the error is provider.ErrNotFound.
type States interface {
	Of(ctx context.Context, workspaceID uuid.UUID) (Stored, error)
	Named(ctx context.Context, name string) (Stored, error)
	All(ctx context.Context) ([]Stored, error)
	// KeepModule stores what a workspace is made with, for the run of a token.
	KeepModule(ctx context.Context, workspaceID uuid.UUID, token string, module []byte) error
	Module(ctx context.Context, workspaceID uuid.UUID) ([]byte, error)
}

// Provider makes workspaces by applying modules. It is safe for concurrent use.
type Provider struct {
	Runner       *Runner
	States       States
	StateURL     string    // where runs reach their state
	StateCA      string    // PEM: what to trust that by; empty: the usual
	Installation uuid.UUID // whose states these are

	turns provider.Turns // of workspaces
}

var _ interface {
	provider.Provider
	provider.StateTaker
} = (*Provider)(nil)

// TakeTurn implements provider.StateTaker: each Create and Delete is a run, and the next one ends the token of the one before.
func (p *Provider) TakeTurn(ctx context.Context, workspaceID uuid.UUID) (done func(), err error) {
	return p.turns.Take(ctx, workspaceID.String())
}

// Validate implements provider.Provider. What is in the files of a module is for Terraform to say.
func (*Provider) Validate(spec json.RawMessage, parameters map[string]string) []provider.Problem {
	_, problems := parseSpec(spec, parameters)
	return problems
}

// Create applies the module to what the state has.
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
	}
	module.Workspace = workspace{
		Name: req.Name, ID: req.Tags.WorkspaceID, Incarnation: req.Tags.Incarnation, Outputs: module.Outputs,
	}
	kept, err := json.Marshal(module)
	if err != nil {
		return provider.Instance{}, xerrors.Errorf("encode module: %w", err)
	}
	if err := p.States.KeepModule(ctx, req.Tags.WorkspaceID, req.State.Token, kept); err != nil {
		return provider.Instance{}, err
	}
	if err := p.run(ctx, module, req.State, (*Run).Apply); err != nil {
		return provider.Instance{}, err
	}
	made, err := p.States.Of(ctx, req.Tags.WorkspaceID)
	if err != nil {
		return provider.Instance{}, xerrors.Errorf("read what was made: %w", err)
	}
	return p.instance(made)
}

// run does something with a module in a run of its own.
func (p *Provider) run(
	ctx context.Context, m Module, state provider.State, do func(*Run, context.Context, io.Writer, ...string) error,
) (err error) {
	run, err := p.Runner.Open(m, Backend{URL: p.StateURL, CA: p.StateCA, WorkspaceID: state.User, Token: state.Token})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, run.Close()) }()
	if err := run.Init(ctx, io.Discard); err != nil {
		return err
	}
	return do(run, ctx, io.Discard)
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
	id := ref.WorkspaceID
	if ref.ProviderID != "" {
		if id, err = uuid.Parse(ref.ProviderID); err != nil {
			return is, provider.ErrNotFound
		}
	}
	if id == uuid.Nil {
		is, err = p.States.Named(ctx, ref.Name)
	} else {
		is, err = p.States.Of(ctx, id)
	}
	if err != nil {
		return is, err
	}
	if ref.WorkspaceID != uuid.Nil && ref.WorkspaceID != is.WorkspaceID || ref.Name != "" && ref.Name != is.Name {
		return is, provider.ErrNotFound
	}
	return is, nil
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

// Delete destroys all that the state has, with the module that made it.
func (p *Provider) Delete(ctx context.Context, ref provider.Ref) error {
	is, err := p.find(ctx, ref)
	if errors.Is(err, provider.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	kept, err := p.States.Module(ctx, is.WorkspaceID)
	if err != nil {
		return xerrors.Errorf("read the module that made it: %w", err)
	}
	var module Module
	if err := json.Unmarshal(kept, &module); err != nil {
		return xerrors.Errorf("decode the module that made it: %w", err)
	}
	if err := p.run(ctx, module, ref.State, (*Run).Destroy); err != nil {
		return err
	}
	if _, err := p.States.Of(ctx, is.WorkspaceID); !errors.Is(err, provider.ErrNotFound) {
		return errors.Join(xerrors.New("after it was destroyed, its state has something left"), err)
	}
	return nil
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

package provider

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"
)

// ErrInTransaction is what Guarded answers to a call made inside a database transaction.
var ErrInTransaction = xerrors.New("provider called inside a database transaction (I8)")

// Guarded wraps p so that any call whose ctx inTx says is inside a database transaction is refused with
// ErrInTransaction before it reaches p. A provider may hang for minutes, and a transaction that waits for it holds its
// locks and its snapshot as long; effects at a provider do not roll back either. An error says which call failed and for which
// workspace, so that no provider has to.
//
// The wrapper has the methods of every optional interface. Whether p does is for As to say.
func Guarded(p Provider, inTx func(context.Context) bool) Provider {
	return &guarded{inner: p, inTx: inTx}
}

// Bounded wraps p so that each call that Watch may watch ends after so long.
func Bounded(p Provider, most time.Duration) Provider {
	watch := func(ctx context.Context, _, _ string) (context.Context, func(error)) {
		ctx, cancel := context.WithTimeout(ctx, most)
		return ctx, func(error) { cancel() }
	}
	return &guarded{inner: p, inTx: func(context.Context) bool { return false }, watch: watch}
}

// BeginState begins a run that reads and writes the state of a workspace.
type BeginState func(ctx context.Context, name string, workspaceID uuid.UUID, incarnation int32) (State, error)

// WithState has each Create, HandOver and Delete of a StateTaker be a run, with the state that begin begins for the workspace. Its errors are
// *StateError. What takes no states is returned as it is.
func WithState(p Provider, begin BeginState) Provider {
	if _, takes := As[StateTaker](p); !takes || begin == nil {
		return p
	}
	return &guarded{inner: p, inTx: func(context.Context) bool { return false }, begin: begin}
}

// StateError is why a run was not begun, so that nothing was asked of the provider.
type StateError struct{ Cause error }

func (e *StateError) Error() string { return "begin a run with its state: " + e.Cause.Error() }
func (e *StateError) Unwrap() error { return e.Cause }

// As returns p as a T, one of the optional interfaces, if the innermost provider is one. A type assertion will not do:
// a wrapper has all methods, whatever it wraps.
func As[T any](p Provider) (T, bool) {
	innermost := p
	for {
		w, ok := innermost.(interface{ Unwrap() Provider })
		if !ok {
			break
		}
		innermost = w.Unwrap()
	}
	if _, ok := innermost.(T); !ok {
		var none T
		return none, false
	}
	t, ok := p.(T)
	return t, ok
}

type guarded struct {
	inner Provider
	inTx  func(context.Context) bool
	name  string     // as configured
	watch Watch      // may be nil
	begin BeginState // nil: no states
}

var _ interface {
	Provider
	Checker
	Observer
	Marker
	Handover
	Composed
	Drifter
	Sited
	AgentHost
	TokenTaker
	RunnerTaker
	StateTaker
	ArchiveTaker
	RunnerNamer
	Execer
	Logger
	MakingLogger
	StopChecker
	Isolator
	Resetter
	Reserver
	Spoken
} = (*guarded)(nil)

// HostsAgent says nothing by itself: As looks whether the inner provider has it.
func (g *guarded) HostsAgent() {}

// LogsMaking is like HostsAgent.
func (g *guarded) LogsMaking() {}

// TakesTokens is like HostsAgent.
func (g *guarded) TakesTokens() {}

// TakesRunners is like HostsAgent.
func (g *guarded) TakesRunners() {}

// TakeTurn implements StateTaker. Where the wrapped provider takes no states, it is everybody's turn.
func (g *guarded) TakeTurn(ctx context.Context, workspaceID uuid.UUID) (done func(), err error) {
	if taker, takes := As[StateTaker](g.inner); takes {
		return taker.TakeTurn(ctx, workspaceID)
	}
	return func() {}, nil
}

// ArchiveOf is none for a provider that takes no archives.
func (g *guarded) ArchiveOf(spec json.RawMessage) string {
	if taker, takes := As[ArchiveTaker](g.inner); takes {
		return taker.ArchiveOf(spec)
	}
	return ""
}

// CheckStop is nil for a provider that stops all of its workspaces.
func (g *guarded) CheckStop(spec json.RawMessage, parameters map[string]string) error {
	if some, ok := As[StopChecker](g.inner); ok {
		return some.CheckStop(spec, parameters)
	}
	return nil
}

// RunnerName is the name itself, unless the wrapped provider has another.
func (g *guarded) RunnerName(name string, id uuid.UUID) string {
	if n, ok := As[RunnerNamer](g.inner); ok {
		return n.RunnerName(name, id)
	}
	return name
}

// Isolated is nil, nothing to fear, unless the wrapped provider is an Isolator that says otherwise.
func (g *guarded) Isolated() error {
	if i, ok := As[Isolator](g.inner); ok {
		return i.Isolated()
	}
	return nil
}

// Spoken is zero for a provider that is not.
func (g *guarded) Spoken() Protocol {
	if s, ok := As[Spoken](g.inner); ok {
		return s.Spoken()
	}
	return Protocol{}
}

// Unwrap is how As finds what is wrapped.
func (g *guarded) Unwrap() Provider { return g.inner }

// do runs one call of a provider: it refuses one inside of a transaction, has it watched where it has a name for that, and
// says in its error which call failed, and for which workspace; once, where guards are nested.
func do[T any](
	ctx context.Context, g *guarded, name, what string, call func(context.Context) (T, error),
) (answer T, err error) {
	if g.inTx(ctx) {
		return answer, xerrors.Errorf("%s: %w", what, ErrInTransaction)
	}
	if g.watch != nil && name != "" {
		var end func(error)
		ctx, end = g.watch(ctx, g.name, name)
		defer func() { end(err) }()
	}
	answer, err = call(ctx)
	if _, nested := g.inner.(*guarded); err != nil && !nested {
		err = xerrors.Errorf("%s: %w", what, err)
	}
	return answer, err
}

// change is do for a call that answers nothing.
func (g *guarded) change(ctx context.Context, name, what string, call func(context.Context) error) error {
	_, err := do(ctx, g, name, what, func(ctx context.Context) (struct{}, error) { return struct{}{}, call(ctx) })
	return err
}

// Validate looks at nothing but its arguments, so it may be called anywhere.
func (g *guarded) Validate(spec json.RawMessage, parameters map[string]string) []Problem {
	return g.inner.Validate(spec, parameters)
}

func (g *guarded) Create(ctx context.Context, req CreateRequest) (Instance, error) {
	return do(ctx, g, "create", "create workspace "+req.Name, func(ctx context.Context) (Instance, error) {
		if g.begin == nil {
			return g.inner.Create(ctx, req)
		}
		if err := CheckName(req.Name); err != nil {
			return Instance{}, err
		}
		state, done, err := g.state(ctx, req.Name, req.Tags.WorkspaceID, req.Tags.Incarnation)
		if err != nil {
			return Instance{}, err
		}
		defer done()
		req.State = state
		return g.inner.Create(ctx, req)
	})
}

func (g *guarded) Get(ctx context.Context, ref Ref) (Instance, error) {
	return do(ctx, g, "get", "get workspace "+ref.Name, func(ctx context.Context) (Instance, error) {
		return g.inner.Get(ctx, ref)
	})
}

func (g *guarded) List(ctx context.Context, installation uuid.UUID) ([]Instance, error) {
	return do(ctx, g, "list", "list workspaces", func(ctx context.Context) ([]Instance, error) {
		return g.inner.List(ctx, installation)
	})
}

func (g *guarded) Ready(ctx context.Context, ref Ref) (Readiness, error) {
	return do(ctx, g, "ready", "probe workspace "+ref.Name, func(ctx context.Context) (Readiness, error) {
		return g.inner.Ready(ctx, ref)
	})
}

func (g *guarded) Delete(ctx context.Context, ref Ref) error {
	return g.change(ctx, "delete", "delete workspace "+ref.Name, func(ctx context.Context) error {
		if g.begin == nil || ref.WorkspaceID == uuid.Nil { // what has no id has no state
			return g.inner.Delete(ctx, ref)
		}
		state, done, err := g.state(ctx, ref.Name, ref.WorkspaceID, 0)
		if err != nil {
			return err
		}
		defer done()
		ref.State = state
		return g.inner.Delete(ctx, ref)
	})
}

// state is that of a run that begins now. Call done when the run is over.
func (g *guarded) state(ctx context.Context, name string, workspaceID uuid.UUID, incarnation int32) (_ State, done func(), err error) {
	if done, err = g.TakeTurn(ctx, workspaceID); err != nil {
		return State{}, nil, err
	}
	state, err := g.begin(ctx, name, workspaceID, incarnation)
	if err != nil {
		done()
		if ctx.Err() == nil {
			err = &StateError{err}
		}
		return State{}, nil, err
	}
	return state, done, nil
}

// HandOver is a run of its own at a StateTaker.
func (g *guarded) HandOver(ctx context.Context, req HandoverRequest) (Instance, error) {
	return do(ctx, g, "handover", "apply workspace "+req.Ref.Name+" for its owner", func(ctx context.Context) (Instance, error) {
		h, ok := As[Handover](g.inner)
		if !ok {
			return Instance{}, Permanent(xerrors.New("the provider cannot hand one over"))
		}
		if g.begin != nil {
			state, done, err := g.state(ctx, req.Ref.Name, req.Ref.WorkspaceID, 0)
			if err != nil {
				return Instance{}, err
			}
			defer done()
			req.Ref.State = state
		}
		return h.HandOver(ctx, req)
	})
}

// Check asks nobody, and finds nothing, where the wrapped provider cannot.
func (g *guarded) Check(ctx context.Context, req CreateRequest) ([]Problem, error) {
	return do(ctx, g, "check", "check workspace "+req.Name, func(ctx context.Context) ([]Problem, error) {
		c, ok := As[Checker](g.inner)
		if !ok {
			return nil, nil
		}
		return c.Check(ctx, req)
	})
}

// Site is empty (reached from everywhere) unless the wrapped provider is Sited.
func (g *guarded) Site() string {
	if s, ok := As[Sited](g.inner); ok {
		return s.Site()
	}
	return ""
}

// Observe tells nothing where the wrapped provider cannot. It is no call, as it lasts.
func (g *guarded) Observe(ctx context.Context, installation uuid.UUID, trouble func(uuid.UUID)) error {
	return g.change(ctx, "", "observe workspaces", func(ctx context.Context) error {
		if o, ok := As[Observer](g.inner); ok {
			return o.Observe(ctx, installation, trouble)
		}
		<-ctx.Done()
		return ctx.Err()
	})
}

// Mark shows nothing where the wrapped provider cannot.
func (g *guarded) Mark(ctx context.Context, ref Ref, claim Claim) error {
	return g.change(ctx, "mark", "mark workspace "+ref.Name, func(ctx context.Context) error {
		if m, ok := As[Marker](g.inner); ok {
			return m.Mark(ctx, ref, claim)
		}
		return nil
	})
}

// Resources is nothing where the wrapped provider knows of none.
func (g *guarded) Resources(ctx context.Context, ref Ref) ([]string, error) {
	return do(ctx, g, "resources", "list resources of workspace "+ref.Name, func(ctx context.Context) ([]string, error) {
		if c, ok := As[Composed](g.inner); ok {
			return c.Resources(ctx, ref)
		}
		return nil, nil
	})
}

// DriftEvery is never where the wrapped provider cannot look.
func (g *guarded) DriftEvery() time.Duration {
	return DriftEvery(g.inner)
}

// Drift is not among the calls that the breaker counts: a look that fails says nothing of creates.
func (g *guarded) Drift(ctx context.Context, ref Ref) ([]string, error) {
	return do(ctx, g, "", "look for drift of workspace "+ref.Name, func(ctx context.Context) ([]string, error) {
		if d, ok := As[Drifter](g.inner); ok {
			return d.Drift(ctx, ref)
		}
		return nil, nil
	})
}

func (g *guarded) Exec(ctx context.Context, ref Ref, req ExecRequest) (int, error) {
	return do(ctx, g, "", "exec in workspace "+ref.Name, func(ctx context.Context) (int, error) {
		e, ok := As[Execer](g.inner)
		if !ok {
			return 0, xerrors.New("the provider cannot run commands in a workspace")
		}
		if err := CheckEnvironment(req.Env); err != nil {
			return 0, err
		}
		return e.Exec(ctx, ref, req)
	})
}

func (g *guarded) Logs(ctx context.Context, ref Ref, follow bool) (io.ReadCloser, error) {
	return do(ctx, g, "", "read logs of workspace "+ref.Name, func(ctx context.Context) (io.ReadCloser, error) {
		l, ok := As[Logger](g.inner)
		if !ok {
			return nil, xerrors.New("the provider keeps no logs")
		}
		return l.Logs(ctx, ref, follow)
	})
}

func (g *guarded) Stop(ctx context.Context, ref Ref) error {
	return g.change(ctx, "stop", "stop workspace "+ref.Name, func(ctx context.Context) error {
		s, ok := As[Stopper](g.inner)
		if !ok {
			return xerrors.New("the provider cannot stop one")
		}
		return s.Stop(ctx, ref)
	})
}

func (g *guarded) Start(ctx context.Context, ref Ref) error {
	return g.change(ctx, "start", "start workspace "+ref.Name, func(ctx context.Context) error {
		s, ok := As[Stopper](g.inner)
		if !ok {
			return xerrors.New("the provider cannot start one")
		}
		return s.Start(ctx, ref)
	})
}

func (g *guarded) Reset(ctx context.Context, req CreateRequest) (Instance, error) {
	return do(ctx, g, "reset", "reset workspace "+req.Name, func(ctx context.Context) (Instance, error) {
		r, ok := As[Resetter](g.inner)
		if !ok {
			return Instance{}, Permanent(xerrors.New("the provider cannot reset one"))
		}
		return r.Reset(ctx, req)
	})
}

func (g *guarded) ListMachines(ctx context.Context) ([]Machine, error) {
	return do(ctx, g, "machines", "list machines", func(ctx context.Context) ([]Machine, error) {
		r, ok := As[Reserver](g.inner)
		if !ok {
			return nil, xerrors.New("the provider has none that exist beforehand")
		}
		return r.ListMachines(ctx)
	})
}

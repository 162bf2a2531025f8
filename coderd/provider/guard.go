package provider

import (
	"context"
	"encoding/json"
	"io"

	"github.com/google/uuid"
	"golang.org/x/xerrors"
)

// ErrInTransaction is what Guarded answers to a call made inside a database transaction.
var ErrInTransaction = xerrors.New("provider called inside a database transaction (I8)")

// Guarded wraps p so that any call whose ctx inTx says is inside a database transaction is refused with
// ErrInTransaction before it reaches p. A provider may hang for minutes, and a transaction that waits for it holds its
// locks and its snapshot as long; effects at a provider do not roll back either.
//
// The wrapper has the methods of every optional interface. Whether p does is for As to say.
func Guarded(p Provider, inTx func(context.Context) bool) Provider {
	return &guarded{inner: p, inTx: inTx}
}

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
	name  string // as configured
	watch Watch  // may be nil
}

var _ interface {
	Provider
	Sited
	AgentHost
	TokenTaker
	RunnerTaker
	RunnerNamer
	Execer
	Logger
	Stopper
	Isolator
	Resetter
	Reserver
	Spoken
} = (*guarded)(nil)

// HostsAgent says nothing by itself: As looks whether the inner provider has it.
func (g *guarded) HostsAgent() {}

// TakesTokens is like HostsAgent.
func (g *guarded) TakesTokens() {}

// TakesRunners is like HostsAgent.
func (g *guarded) TakesRunners() {}

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

func (g *guarded) check(ctx context.Context, call string) error {
	if g.inTx(ctx) {
		return xerrors.Errorf("%s: %w", call, ErrInTransaction)
	}
	return nil
}

// Validate looks at nothing but its arguments, so it may be called anywhere.
func (g *guarded) Validate(spec json.RawMessage, parameters map[string]string) []Problem {
	return g.inner.Validate(spec, parameters)
}

func (g *guarded) Create(ctx context.Context, req CreateRequest) (inst Instance, err error) {
	ctx, end, err := g.begin(ctx, "create", "create workspace")
	if err != nil {
		return inst, err
	}
	defer func() { end(err) }()
	return g.inner.Create(ctx, req)
}

func (g *guarded) Get(ctx context.Context, ref Ref) (inst Instance, err error) {
	ctx, end, err := g.begin(ctx, "get", "get workspace")
	if err != nil {
		return inst, err
	}
	defer func() { end(err) }()
	return g.inner.Get(ctx, ref)
}

func (g *guarded) List(ctx context.Context, installation uuid.UUID) (all []Instance, err error) {
	ctx, end, err := g.begin(ctx, "list", "list workspaces")
	if err != nil {
		return nil, err
	}
	defer func() { end(err) }()
	return g.inner.List(ctx, installation)
}

func (g *guarded) Ready(ctx context.Context, ref Ref) (state Readiness, err error) {
	ctx, end, err := g.begin(ctx, "ready", "probe workspace")
	if err != nil {
		return state, err
	}
	defer func() { end(err) }()
	return g.inner.Ready(ctx, ref)
}

func (g *guarded) Delete(ctx context.Context, ref Ref) (err error) {
	ctx, end, err := g.begin(ctx, "delete", "delete workspace")
	if err != nil {
		return err
	}
	defer func() { end(err) }()
	return g.inner.Delete(ctx, ref)
}

// Site is empty (reached from everywhere) unless the wrapped provider is Sited.
func (g *guarded) Site() string {
	if s, ok := As[Sited](g.inner); ok {
		return s.Site()
	}
	return ""
}

func (g *guarded) Exec(ctx context.Context, ref Ref, req ExecRequest) (int, error) {
	if err := g.check(ctx, "exec in workspace"); err != nil {
		return 0, err
	}
	e, ok := As[Execer](g.inner)
	if !ok {
		return 0, xerrors.New("exec in workspace: the provider cannot run commands in a workspace")
	}
	if err := CheckEnvironment(req.Env); err != nil {
		return 0, xerrors.Errorf("exec in workspace %s: %w", ref.Name, err)
	}
	return e.Exec(ctx, ref, req)
}

func (g *guarded) Logs(ctx context.Context, ref Ref, follow bool) (io.ReadCloser, error) {
	if err := g.check(ctx, "read workspace logs"); err != nil {
		return nil, err
	}
	l, ok := As[Logger](g.inner)
	if !ok {
		return nil, xerrors.New("read workspace logs: the provider keeps no logs")
	}
	return l.Logs(ctx, ref, follow)
}

func (g *guarded) Stop(ctx context.Context, ref Ref) (err error) {
	ctx, end, err := g.begin(ctx, "stop", "stop workspace")
	if err != nil {
		return err
	}
	defer func() { end(err) }()
	s, ok := As[Stopper](g.inner)
	if !ok {
		return xerrors.New("stop workspace: the provider cannot stop one")
	}
	return s.Stop(ctx, ref)
}

func (g *guarded) Start(ctx context.Context, ref Ref) (err error) {
	ctx, end, err := g.begin(ctx, "start", "start workspace")
	if err != nil {
		return err
	}
	defer func() { end(err) }()
	s, ok := As[Stopper](g.inner)
	if !ok {
		return xerrors.New("start workspace: the provider cannot start one")
	}
	return s.Start(ctx, ref)
}

func (g *guarded) Reset(ctx context.Context, req CreateRequest) (inst Instance, err error) {
	ctx, end, err := g.begin(ctx, "reset", "reset workspace")
	if err != nil {
		return inst, err
	}
	defer func() { end(err) }()
	r, ok := As[Resetter](g.inner)
	if !ok {
		return Instance{}, Permanent(xerrors.New("reset workspace: the provider cannot reset one"))
	}
	return r.Reset(ctx, req)
}

func (g *guarded) ListMachines(ctx context.Context) (all []Machine, err error) {
	ctx, end, err := g.begin(ctx, "machines", "list machines")
	if err != nil {
		return nil, err
	}
	defer func() { end(err) }()
	r, ok := As[Reserver](g.inner)
	if !ok {
		return nil, xerrors.New("list machines: the provider has none that exist beforehand")
	}
	return r.ListMachines(ctx)
}

package provider_test

import (
	"context"
	"encoding/json"
	"io"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// plain counts the calls that reach it.
type plain struct{ calls int }

func (p *plain) Validate(json.RawMessage, map[string]string) []provider.Problem {
	p.calls++
	return nil
}

func (p *plain) Create(context.Context, provider.CreateRequest) (provider.Instance, error) {
	p.calls++
	return provider.Instance{}, nil
}

func (p *plain) Get(context.Context, provider.Ref) (provider.Instance, error) {
	p.calls++
	return provider.Instance{}, nil
}

func (p *plain) List(context.Context, uuid.UUID) ([]provider.Instance, error) {
	p.calls++
	return nil, nil
}

func (p *plain) Ready(context.Context, provider.Ref) (provider.Readiness, error) {
	p.calls++
	return provider.Readiness{}, nil
}

func (p *plain) Delete(context.Context, provider.Ref) error {
	p.calls++
	return nil
}

// able can do everything that is optional.
type able struct{ plain }

func (*able) Site() string { return "here" }

func (a *able) Exec(context.Context, provider.Ref, provider.ExecRequest) (int, error) {
	a.calls++
	return 7, nil
}

func (a *able) Logs(context.Context, provider.Ref, bool) (io.ReadCloser, error) {
	a.calls++
	return nil, nil
}

func (a *able) Stop(context.Context, provider.Ref) error {
	a.calls++
	return nil
}

func (a *able) Start(context.Context, provider.Ref) error {
	a.calls++
	return nil
}

type txKey struct{}

func inTx(ctx context.Context) bool { return ctx.Value(txKey{}) != nil }

// I8: no provider call inside a transaction.
func TestGuardedRefusesInsideTransaction(t *testing.T) {
	t.Parallel()
	inner := &able{}
	p := provider.Guarded(inner, inTx)
	execer, ok := provider.As[provider.Execer](p)
	require.True(t, ok)
	logger, ok := provider.As[provider.Logger](p)
	require.True(t, ok)
	stopper, ok := provider.As[provider.Stopper](p)
	require.True(t, ok)
	calls := map[string]func(context.Context) error{
		"create": func(ctx context.Context) error { _, err := p.Create(ctx, provider.CreateRequest{}); return err },
		"get":    func(ctx context.Context) error { _, err := p.Get(ctx, provider.Ref{}); return err },
		"list":   func(ctx context.Context) error { _, err := p.List(ctx, uuid.Nil); return err },
		"ready":  func(ctx context.Context) error { _, err := p.Ready(ctx, provider.Ref{}); return err },
		"delete": func(ctx context.Context) error { return p.Delete(ctx, provider.Ref{}) },
		"exec": func(ctx context.Context) error {
			_, err := execer.Exec(ctx, provider.Ref{}, provider.ExecRequest{})
			return err
		},
		"stop":  func(ctx context.Context) error { return stopper.Stop(ctx, provider.Ref{}) },
		"start": func(ctx context.Context) error { return stopper.Start(ctx, provider.Ref{}) },
		"logs":  func(ctx context.Context) error { _, err := logger.Logs(ctx, provider.Ref{}, false); return err },
	}
	transaction := context.WithValue(context.Background(), txKey{}, true)
	for name, call := range calls {
		inner.calls = 0
		require.ErrorIs(t, call(transaction), provider.ErrInTransaction, name)
		assert.Zero(t, inner.calls, "%s reached the provider", name)
		require.NoError(t, call(context.Background()), name)
		assert.Equal(t, 1, inner.calls, name)
	}
}

func TestAsSeesThroughTheGuard(t *testing.T) {
	t.Parallel()
	poor := provider.Guarded(provider.Guarded(&plain{}, inTx), inTx)
	_, ok := provider.As[provider.Execer](poor)
	assert.False(t, ok)
	_, ok = provider.As[provider.Logger](poor)
	assert.False(t, ok)
	_, ok = provider.As[provider.Stopper](poor)
	assert.False(t, ok)
	_, ok = provider.As[provider.Sited](poor)
	assert.False(t, ok)

	rich := provider.Guarded(provider.Guarded(&able{}, inTx), inTx)
	sited, ok := provider.As[provider.Sited](rich)
	require.True(t, ok)
	assert.Equal(t, "here", sited.Site())
	execer, ok := provider.As[provider.Execer](rich)
	require.True(t, ok)
	code, err := execer.Exec(context.Background(), provider.Ref{}, provider.ExecRequest{})
	require.NoError(t, err)
	assert.Equal(t, 7, code)
}

// A name with "=" in it would be another variable than it says, at every provider.
func TestGuardedChecksEnvironment(t *testing.T) {
	t.Parallel()
	execer, ok := provider.As[provider.Execer](provider.Guarded(&able{}, func(context.Context) bool { return false }))
	require.True(t, ok)
	for name, env := range map[string]map[string]string{
		`"A=B" is not a name`:         {"A=B": "c"},
		`"" is not a name`:            {"": "c"},
		`"1A" is not a name`:          {"1A": "c"},
		`"A\x00" is not a name`:       {"A\x00": "c"},
		`A has a NUL character in it`: {"A": "b\x00PREWARM_MARK="},
	} {
		_, err := execer.Exec(t.Context(), provider.Ref{Name: "w"}, provider.ExecRequest{Env: env})
		require.ErrorContains(t, err, "exec in workspace w: environment: ")
		require.ErrorContains(t, err, name)
	}
	_, err := execer.Exec(t.Context(), provider.Ref{}, provider.ExecRequest{Env: map[string]string{"_a1": "b=c"}})
	require.NoError(t, err)
}

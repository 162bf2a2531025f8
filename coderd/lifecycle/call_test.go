package lifecycle

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
)

// sleeping is a clock whose timers do not come to their turn.
type sleeping struct{ *quartz.Mock }

func (c sleeping) AfterFunc(_ time.Duration, f func(), tags ...string) *quartz.Timer {
	return c.Mock.AfterFunc(24*time.Hour, f, tags...)
}

// In a process that was frozen and wakes, work may go on before the timers do that should end it. A call knows all the
// same that the lease is over, before it is made and when it returns.
func TestCall_knowsBeforeTheTimer(t *testing.T) {
	t.Parallel()
	for _, during := range []bool{false, true} {
		clock := quartz.NewMock(t)
		w := &Worker{Options: Options{Clock: clock}, held: lease.NewHeld[uuid.UUID](sleeping{clock}, 15*time.Second)}
		ctx := w.held.Hold(context.Background(), uuid.New(), 1, clock.Now())
		freeze := func() { clock.Advance(12 * time.Second).MustWait(context.Background()) }
		if !during {
			freeze()
		}
		require.NoError(t, ctx.Err())
		var before error
		require.NoError(t, w.call(ctx, time.Minute, func(ctx context.Context) error {
			before = ctx.Err()
			if during {
				freeze()
			}
			return nil
		}))
		require.Equal(t, !during, before != nil, "the call is not made with a lease that is over")
		require.ErrorIs(t, context.Cause(ctx), lease.ErrLost)
	}
}

// stateful is a provider that takes states.
type stateful struct {
	provider.Provider
	was provider.State // of the last create
}

func (*stateful) TakeTurn(context.Context, uuid.UUID) (func(), error) { return func() {}, nil }

func (p *stateful) Create(_ context.Context, req provider.CreateRequest) (provider.Instance, error) {
	p.was = req.State
	return provider.Instance{}, nil
}

// A create at a provider that takes states is a run of its job's attempt. Where there are no states, it is made without one.
func TestFind_state(t *testing.T) {
	t.Parallel()
	cloud := &stateful{}
	providers := provider.NewRegistry(map[string]provider.Factory{
		"any": func(json.RawMessage) (provider.Provider, error) { return cloud, nil },
	}, database.InTransaction)
	providers.Update([]provider.Row{{Name: "cloud", Kind: "any"}})
	job := database.Job{ID: uuid.New(), Attempt: 2, Provider: "cloud"}
	for name, c := range map[string]struct {
		state func(context.Context, database.Job) (provider.State, error)
		want  provider.State
	}{
		"none": {},
		"of the attempt": {func(_ context.Context, j database.Job) (provider.State, error) {
			require.Equal(t, job, j)
			return provider.State{User: "run", Token: "secret"}, nil
		}, provider.State{User: "run", Token: "secret"}},
	} {
		j := &work{Job: job}
		require.NoError(t, (&Worker{Options: Options{Providers: providers, State: c.state}}).find(j), name)
		_, err := j.provider.Create(t.Context(), provider.CreateRequest{Name: "w"})
		require.NoError(t, err, name)
		require.Equal(t, c.want, cloud.was, name)
	}
}

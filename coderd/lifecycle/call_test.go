package lifecycle

import (
	"context"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/lease"
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

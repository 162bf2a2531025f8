package lifecycle

import (
	"context"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
)

// A job's context ends a margin before its lease does, counted from before the lease was asked for.
func TestHold_endsBeforeTheLease(t *testing.T) {
	t.Parallel()
	clock := quartz.NewMock(t)
	s := newLeases(clock, nil, 15*time.Second)
	asked := clock.Now()
	clock.Advance(4 * time.Second) // the answer took its time
	ctx := s.hold(context.Background(), database.Job{ID: uuid.New(), Attempt: 1}, asked)
	clock.Advance(7 * time.Second).MustWait(context.Background())
	require.NoError(t, ctx.Err())
	clock.Advance(time.Second).MustWait(context.Background()) // 12 s since it was asked for; the margin is 3 s
	require.ErrorIs(t, context.Cause(ctx), errLeaseLost)
}

func TestHold_answerCameTooLate(t *testing.T) {
	t.Parallel()
	clock := quartz.NewMock(t)
	s := newLeases(clock, nil, 15*time.Second)
	asked := clock.Now()
	clock.Advance(13 * time.Second)
	ctx := s.hold(context.Background(), database.Job{ID: uuid.New(), Attempt: 1}, asked)
	require.ErrorIs(t, context.Cause(ctx), errLeaseLost)
}

func TestHold_anotherAttemptEndsTheFirst(t *testing.T) {
	t.Parallel()
	clock := quartz.NewMock(t)
	s := newLeases(clock, nil, 15*time.Second)
	job := database.Job{ID: uuid.New(), Attempt: 1}
	first := s.hold(context.Background(), job, clock.Now())
	job.Attempt = 2
	second := s.hold(context.Background(), job, clock.Now())
	require.ErrorIs(t, context.Cause(first), errLeaseLost)
	require.NoError(t, second.Err())
	s.drop(database.Job{ID: job.ID, Attempt: 1})
	require.NoError(t, second.Err(), "the end of the first is not the end of the second")
}

// In a process that was frozen and wakes, work may go on before the timers do that should end it. A call knows all the
// same that the lease is over, before it is made and when it returns.
func TestCall_knowsBeforeTheTimer(t *testing.T) {
	t.Parallel()
	for _, during := range []bool{false, true} {
		clock := quartz.NewMock(t)
		w := &Worker{Options: Options{Clock: clock}, held: newLeases(clock, nil, 15*time.Second)}
		job := database.Job{ID: uuid.New(), Attempt: 1}
		ctx := w.held.hold(context.Background(), job, clock.Now())
		w.held.jobs[job.ID].end.Stop() // it has not come to its turn
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
		require.ErrorIs(t, context.Cause(ctx), errLeaseLost)
	}
}

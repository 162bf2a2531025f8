package lease_test

import (
	"context"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/lease"
)

// A job's context ends a margin before its lease does, counted from before the lease was asked for.
func TestHold_endsBeforeTheLease(t *testing.T) {
	t.Parallel()
	clock := quartz.NewMock(t)
	s := lease.NewHeld[uuid.UUID](clock, 15*time.Second)
	asked := clock.Now()
	clock.Advance(4 * time.Second) // the answer took its time
	ctx := s.Hold(context.Background(), uuid.New(), 1, asked)
	clock.Advance(7 * time.Second).MustWait(context.Background())
	require.NoError(t, ctx.Err())
	clock.Advance(time.Second).MustWait(context.Background()) // 12 s since it was asked for; the margin is 3 s
	require.ErrorIs(t, context.Cause(ctx), lease.ErrLost)
}

func TestHold_answerCameTooLate(t *testing.T) {
	t.Parallel()
	clock := quartz.NewMock(t)
	s := lease.NewHeld[uuid.UUID](clock, 15*time.Second)
	asked := clock.Now()
	clock.Advance(13 * time.Second)
	ctx := s.Hold(context.Background(), uuid.New(), 1, asked)
	require.ErrorIs(t, context.Cause(ctx), lease.ErrLost)
}

func TestHold_anotherAttemptEndsTheFirst(t *testing.T) {
	t.Parallel()
	clock := quartz.NewMock(t)
	s := lease.NewHeld[uuid.UUID](clock, 15*time.Second)
	job := uuid.New()
	first := s.Hold(context.Background(), job, 1, clock.Now())
	second := s.Hold(context.Background(), job, 2, clock.Now())
	require.ErrorIs(t, context.Cause(first), lease.ErrLost)
	require.NoError(t, second.Err())
	s.Drop(job, 1)
	require.NoError(t, second.Err(), "the end of the first is not the end of the second")
}

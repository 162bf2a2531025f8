package lease_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/lease"
)

// heard counts log entries, by their message.
type heard chan string

func (h heard) LogEntry(_ context.Context, e slog.SinkEntry) { h <- e.Message }
func (heard) Sync()                                          {}

func TestLoop(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]lease.Loop{
		"ticker": {Every: time.Minute},
		"timer":  {Pause: func() time.Duration { return time.Minute }},
	} {
		for _, later := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				l := l
				ctx, stop := context.WithTimeout(context.Background(), time.Minute)
				defer stop()
				clock, log, wake := quartz.NewMock(t), make(heard, 1), make(chan struct{})
				l.Clock, l.Log, l.What, l.Tags = clock, slog.Make(log), "it failed", []string{"loop"}
				l.Wake, l.Later = wake, later
				trap := clock.Trap().NewTimer("loop")
				if l.Every > 0 {
					trap = clock.Trap().NewTicker("loop")
				}
				defer trap.Close()
				waits := func() { // until the loop does
					if l.Every == 0 {
						trap.MustWait(ctx).MustRelease(ctx)
					}
				}
				done := make(chan int)
				ended := make(chan struct{})
				running, end := context.WithCancel(ctx)
				n := 0
				go func() {
					defer close(ended)
					l.Run(running, func(context.Context) error {
						n++
						done <- n
						return errors.New("no")
					})
				}()
				if l.Every > 0 {
					trap.MustWait(ctx).MustRelease(ctx)
				}
				times := 0
				did := func() {
					times++
					require.Equal(t, times, <-done)
					require.Equal(t, "it failed", <-log)
					waits()
				}
				if later {
					waits()
				} else {
					did()
				}
				clock.Advance(time.Minute)
				did()
				wake <- struct{}{}
				did()
				end()
				<-ended
			})
		}
	}
}

func TestApart(t *testing.T) {
	t.Parallel()
	var a lease.Apart
	var first, other atomic.Int32
	hang, did := make(chan struct{}), make(chan struct{})
	a.Go("first", func() { first.Add(1); <-hang })
	a.Go("first", func() { first.Add(1) })
	a.Go("other", func() { other.Add(1); close(did) })
	<-did
	close(hang)
	a.Wait()
	require.EqualValues(t, 1, first.Load(), "it is under way")
	a.Go("first", func() { first.Add(1) })
	a.Wait()
	require.EqualValues(t, 2, first.Load())
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	none := func(time.Duration) time.Duration { return 0 }
	all := func(d time.Duration) time.Duration { return d }
	for failures, most := range map[int32]time.Duration{
		0: time.Second, 1: 2 * time.Second, 3: 8 * time.Second, 9: 5 * time.Minute, 1000: 5 * time.Minute,
	} {
		require.Equal(t, most/2, lease.Backoff(failures, none))
		require.Equal(t, most, lease.Backoff(failures, all))
	}
}

// What wakes a loop at the instant at which it is due is done once, whichever of the two it heard first.
func TestLoop_wokenWhenDue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		wake := make(chan struct{}, 1)
		var n atomic.Int32
		l := lease.Loop{Clock: quartz.NewReal(), Log: slog.Make(), What: "count", Every: time.Second, Wake: wake}
		go l.Run(ctx, func(context.Context) error {
			if n.Add(1) == 1 {
				time.Sleep(1500 * time.Millisecond)
				wake <- struct{}{}
			}
			return nil
		})
		time.Sleep(1600 * time.Millisecond)
		synctest.Wait()
		require.EqualValues(t, 2, n.Load())
		time.Sleep(time.Second)
		synctest.Wait()
		require.EqualValues(t, 3, n.Load())
	})
}

package pubsub_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/pubsub"
)

const patience = time.Minute

// start starts one by that clock. With a mock that nobody advances, it holds no peer for gone that only takes its time.
func start(t *testing.T, store *database.Store, clock quartz.Clock) *pubsub.PubSub {
	t.Helper()
	p := pubsub.New(context.Background(), store, clock, slog.Make())
	t.Cleanup(p.Close)
	return p
}

// subscribe returns the events of a channel, of which it has taken the first, the Resync of every beginning.
func subscribe(t *testing.T, p *pubsub.PubSub, channel string) <-chan pubsub.Event {
	t.Helper()
	events := make(chan pubsub.Event, 1000)
	t.Cleanup(p.Subscribe(channel, func(_ context.Context, event pubsub.Event) { events <- event }))
	require.Equal(t, resync(channel), next(t, events))
	return events
}

func resync(channel string) pubsub.Event { return pubsub.Event{Channel: channel, Resync: true} }

func next(t *testing.T, events <-chan pubsub.Event) pubsub.Event {
	t.Helper()
	select {
	case event := <-events:
		return event
	case <-time.After(patience):
		require.FailNow(t, "no event")
		panic("unreachable")
	}
}

func TestPublish_payloadArrivesAsItWas(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := start(t, dbtest.Open(t), quartz.NewMock(t))
	// A channel whose name needs quoting, and is not folded to lower case.
	events := subscribe(t, p, `Odd "channel"; --`)
	for _, payload := range []string{"", "plain", `quo'ted "and" \escaped`, "Grüße, 世界 \n", strings.Repeat("x", 7999)} {
		require.NoError(t, p.Publish(ctx, `Odd "channel"; --`, payload))
		require.Equal(t, pubsub.Event{Channel: `Odd "channel"; --`, Payload: payload}, next(t, events))
	}
	require.Error(t, p.Publish(ctx, "c", strings.Repeat("x", 8000)))
}

func TestPublish_refusedInsideOfTransaction(t *testing.T) {
	t.Parallel()
	store := dbtest.Open(t)
	p := start(t, store, quartz.NewReal())
	opts := database.TxOptions{Label: "try publish"}
	err := store.InTx(context.Background(), opts, func(ctx context.Context, _ pgx.Tx) error {
		return p.Publish(ctx, "c", "early")
	})
	require.ErrorContains(t, err, "inside of a transaction")
}

func TestSubscribe_cancelled(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := start(t, dbtest.Open(t), quartz.NewMock(t))
	var calls atomic.Int32
	cancel := p.Subscribe("c", func(context.Context, pubsub.Event) { calls.Add(1) })
	require.Eventually(t, func() bool { return calls.Load() == 1 }, patience, time.Millisecond)
	cancel()
	cancel() // twice does no harm

	// Who subscribes again begins anew, also when the connection had stopped to listen in between.
	events := subscribe(t, p, "c")
	require.NoError(t, p.Publish(ctx, "c", "x"))
	require.Equal(t, "x", next(t, events).Payload)
	require.EqualValues(t, 1, calls.Load())
}

func TestReconnect_resyncs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	p := start(t, store, quartz.NewReal())
	one, two := subscribe(t, p, "one"), subscribe(t, p, "two")
	for range 3 {
		terminateListener(t, store)
		require.Equal(t, resync("one"), next(t, one))
		require.Equal(t, resync("two"), next(t, two))
		require.NoError(t, p.Publish(ctx, "two", "again"))
		require.Equal(t, "again", next(t, two).Payload)
	}
	require.Empty(t, one)
}

// terminateListener ends the backend that listens, once there is one: the newest, since those that were ended before it may
// take their time to be gone.
func terminateListener(t *testing.T, store *database.Store) {
	t.Helper()
	const statement = `SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE '% listen' ORDER BY backend_start DESC LIMIT 1) newest`
	require.Eventually(t, func() bool {
		var ended int
		err := store.Pool.QueryRow(context.Background(), statement).Scan(&ended)
		return err == nil && ended == 1
	}, patience, 10*time.Millisecond)
}

// A peer that vanished is found out by a ping after 5 s of quiet that gets no answer for 5 s. The clock is the test's.
func TestBlackHole_resyncs(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	direct := dbtest.Open(t)
	way, url := newProxy(t, direct.Pool.Config().ConnString())
	clock := quartz.NewMock(t)
	quiets := clock.Trap().NewTimer("pubsub", "quiet")
	limits := clock.Trap().AfterFunc("pubsub", "limit")
	reconnects := clock.Trap().NewTimer("pubsub", "reconnect")
	defer reconnects.Close()

	store := dbtest.OpenURL(t, url, database.Options{})
	t.Cleanup(way.close) // before the store, whose idle connections are in the black hole too
	p := start(t, store, clock)
	events := make(chan pubsub.Event, 10)
	quiets.MustWait(ctx).MustRelease(ctx) // connected; nothing to listen to yet
	defer p.Subscribe("c", func(_ context.Context, event pubsub.Event) { events <- event })()
	limits.MustWait(ctx).MustRelease(ctx) // LISTEN
	require.Equal(t, resync("c"), next(t, events))
	quiets.MustWait(ctx).MustRelease(ctx)

	way.blackHole()
	require.NoError(t, notify(ctx, direct, "c", "lost"))
	clock.Advance(5 * time.Second).MustWait(ctx) // quiet for long: ping
	limits.MustWait(ctx).MustRelease(ctx)
	limits.Close()
	quiets.Close()
	clock.Advance(5 * time.Second).MustWait(ctx) // no answer
	reconnect := reconnects.MustWait(ctx)
	require.LessOrEqual(t, reconnect.Duration, 100*time.Millisecond)
	reconnect.MustRelease(ctx)
	clock.Advance(reconnect.Duration).MustWait(ctx)
	require.Equal(t, resync("c"), next(t, events))

	require.NoError(t, notify(ctx, direct, "c", "heard"))
	require.Equal(t, "heard", next(t, events).Payload)
}

func notify(ctx context.Context, store *database.Store, channel, payload string) error {
	return database.New(store).Notify(ctx, database.NotifyParams{Channel: channel, Payload: payload})
}

func TestPing_keepsTheConnection(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := dbtest.Open(t)
	clock := quartz.NewMock(t)
	quiets := clock.Trap().NewTimer("pubsub", "quiet")
	reconnects := clock.Trap().NewTimer("pubsub", "reconnect")
	defer reconnects.Close()
	p := start(t, store, clock)
	for range 3 {
		quiets.MustWait(ctx).MustRelease(ctx)
		clock.Advance(5 * time.Second).MustWait(ctx)
	}
	quiets.MustWait(ctx).MustRelease(ctx) // after an answered ping, without a reconnect, or this would hang in its trap
	quiets.Close()
	events := subscribe(t, p, "c")
	require.NoError(t, p.Publish(ctx, "c", "x"))
	require.Equal(t, "x", next(t, events).Payload)
}

func TestOverflow_resyncsTheSlowAndDelaysNobody(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := start(t, dbtest.Open(t), quartz.NewMock(t))
	quick := subscribe(t, p, "c")

	entered, resume := make(chan struct{}), make(chan struct{})
	slow := make(chan pubsub.Event, 1000)
	defer p.Subscribe("c", func(_ context.Context, event pubsub.Event) {
		if event.Payload == "stop here" {
			close(entered)
			<-resume
		}
		slow <- event
	})()
	require.Equal(t, resync("c"), next(t, slow))
	publish := func(payload string) {
		require.NoError(t, p.Publish(ctx, "c", payload))
		require.Equal(t, payload, next(t, quick).Payload) // at once, whatever the slow one does
	}
	publish("stop here")
	<-entered

	for i := range 100 { // more than fit into a queue
		publish(fmt.Sprint("different ", i))
	}
	close(resume)
	require.Equal(t, "stop here", next(t, slow).Payload)
	require.Equal(t, resync("c"), next(t, slow))

	publish("last") // what comes after the resync is not lost
	for next(t, slow).Payload != "last" {
	}
}

func TestCoalesce_equalHintsThatWait(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := start(t, dbtest.Open(t), quartz.NewMock(t))
	quick := subscribe(t, p, "c")
	resume := make(chan struct{})
	slow := make(chan pubsub.Event, 1000)
	defer p.Subscribe("c", func(_ context.Context, event pubsub.Event) {
		slow <- event
		<-resume
	})()
	require.Equal(t, resync("c"), next(t, slow))
	for range 200 {
		require.NoError(t, p.Publish(ctx, "c", "same"))
		next(t, quick)
	}
	require.NoError(t, p.Publish(ctx, "c", "other"))
	next(t, quick)
	close(resume)
	require.Equal(t, "same", next(t, slow).Payload)
	require.Equal(t, "other", next(t, slow).Payload)
}

func TestManySubscribers(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	p := start(t, dbtest.Open(t), quartz.NewMock(t))
	const subscribers, channels = 200, 20
	begun, heard := make(chan string, subscribers), make(chan string, subscribers)
	for i := range subscribers {
		channel := fmt.Sprint("channel ", i%channels)
		defer p.Subscribe(channel, func(_ context.Context, event pubsub.Event) {
			if event.Resync {
				begun <- event.Channel
			} else {
				heard <- event.Channel + event.Payload
			}
		})()
	}
	count := func(from <-chan string) map[string]int {
		counts := map[string]int{}
		for range subscribers {
			select {
			case s := <-from:
				counts[s]++
			case <-time.After(patience):
				require.FailNow(t, "too few events", "%v", counts)
			}
		}
		return counts
	}
	require.Len(t, count(begun), channels)
	for i := range channels {
		require.NoError(t, p.Publish(ctx, fmt.Sprint("channel ", i), "!"))
	}
	counts := count(heard)
	require.Len(t, counts, channels)
	for channel, n := range counts {
		require.Equal(t, subscribers/channels, n, channel)
	}
}

func TestClose_endsCallsUnderWay(t *testing.T) {
	t.Parallel()
	p := pubsub.New(context.Background(), dbtest.Open(t), quartz.NewMock(t), slog.Make())
	entered, ended := make(chan struct{}), atomic.Bool{}
	p.Subscribe("c", func(ctx context.Context, _ pubsub.Event) {
		close(entered)
		<-ctx.Done()
		ended.Store(true)
	})
	<-entered
	p.Close()
	require.True(t, ended.Load())
}

package inventory_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// slow is a cloud whose listing takes until it is told, or until nobody waits for it.
type slow struct {
	*sim.Provider
	listing chan struct{} // somebody lists
	answer  chan struct{}
}

func (s *slow) List(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	s.listing <- struct{}{}
	select {
	case <-s.answer:
		return s.Provider.List(ctx, installation)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// warnings are what a service logs.
type warnings chan slog.SinkEntry

func (w warnings) LogEntry(_ context.Context, e slog.SinkEntry) { w <- e }
func (warnings) Sync()                                          {}

// slowBench is a world whose provider is slow, and a replica that runs and lists it.
type slowBench struct {
	*bench
	cloud *slow
	clock *quartz.Mock
	log   warnings
	beat  time.Duration
}

func newSlowBench(t *testing.T) *slowBench {
	t.Helper()
	b := &slowBench{
		bench: &bench{t: t}, cloud: &slow{listing: make(chan struct{}), answer: make(chan struct{})}, clock: quartz.NewMock(t),
		log: make(warnings, 10),
	}
	b.World = coderdtest.NewWorldWith(t, sim.Behavior{}, func(p provider.Provider) provider.Provider {
		b.cloud.Provider = p.(*sim.Provider)
		return b.cloud
	})
	b.replica = b.Start(t, coderdtest.Config{})
	first := inventory.New(inventory.Options{
		Store: b.Store, Writer: workspaces.New(b.Store, workspaces.NewID, "first"), Providers: b.Providers, Clock: b.clock,
		Log: slog.Make(b.log), Registerer: prometheus.NewRegistry(), Replica: "first", Installation: b.Installation,
		Hints: b.replica.Hints,
	})
	trap := b.clock.Trap().NewTicker("lease", "heartbeat")
	defer trap.Close()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); first.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	beat := trap.MustWait(ctx)
	b.beat = beat.Duration
	beat.MustRelease(ctx)
	<-b.cloud.listing
	return b
}

// A replica extends the lease of the inventory that it makes. Of one that died the lease ends within 15 s; another takes the
// inventory over, and nothing that the first does later counts (S1, I5).
func TestLease(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	b := newSlowBench(t)
	const short = "SELECT (leased_until <= prewarm_now() + interval '15 s')::text FROM inventories WHERE leased_by = 'first'"
	require.Equal(t, "true", b.one(short), "a replica that dies now holds it up for no longer")
	b.exec("UPDATE inventories SET leased_until = prewarm_now() + interval '5 s'")
	b.clock.Advance(b.beat).MustWait(ctx)
	coderdtest.Eventually(t, "the lease is extended", func() bool {
		return b.one("SELECT (leased_until > prewarm_now() + interval '5 s')::text FROM inventories") == "true"
	})
	require.Equal(t, "true", b.one(short))

	b.exec("UPDATE inventories SET leased_until = prewarm_now(), due_at = prewarm_now()") // 15 s without a heartbeat
	second := make(chan inventory.Result, 1)
	go func() {
		res, err := b.service(b.Installation).Pass(ctx, "sim")
		assert.NoError(t, err)
		second <- res
	}()
	<-b.cloud.listing
	b.cloud.answer <- struct{}{} // whichever of them hears it first
	b.cloud.answer <- struct{}{}
	require.False(t, (<-second).Held)
	require.Equal(t, "2 complete", b.one("SELECT attempt || ' ' || outcome FROM inventories"))
}

// An inventory that takes too long is given up, however well its heartbeats go.
func TestLease_longest(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b := newSlowBench(t)
	trap := b.clock.Trap().Now("lease", "left") // a lease is extended
	for passed := time.Second; passed < 2*time.Minute; passed += time.Second {
		b.clock.Advance(time.Second).MustWait(ctx)
		if passed%b.beat == 0 {
			trap.MustWait(ctx).MustRelease(ctx)
		}
		require.Empty(t, b.log, "after %s", passed)
	}
	trap.Close()
	b.clock.Advance(time.Second).MustWait(ctx)
	select {
	case e := <-b.log:
		require.Contains(t, fmt.Sprint(e.Fields), "inventory not complete after 2m0s")
	case <-ctx.Done():
		t.Fatal("it goes on")
	}
}

// One that is asked for while another is under way comes right after it, as what it is wanted for may be what the first was
// too early to see.
func TestLookSoon_underWay(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	b := newSlowBench(t)
	require.NoError(t, inventory.LookSoon(ctx, b.Store.Pool, "sim"))
	b.cloud.answer <- struct{}{}
	select {
	case <-b.cloud.listing:
	case <-ctx.Done():
		t.Fatal("it is forgotten")
	}
	b.cloud.answer <- struct{}{}
	coderdtest.Eventually(t, "that was all", func() bool {
		return b.one("SELECT (attempt = 2 AND due_at > prewarm_now() AND leased_by = '')::text FROM inventories") == "true"
	})
}

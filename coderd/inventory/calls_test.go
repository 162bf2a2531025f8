package inventory_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// shaky is a cloud that answers no call but deletes while it is down, and whose calls are counted.
type shaky struct {
	*sim.Provider
	calls inventory.Calls
	down  atomic.Bool
}

func (s *shaky) ended(ctx context.Context, err error) error {
	if s.down.Load() {
		err = errors.New("no answer")
	}
	s.calls.Add("sim", provider.Result(ctx, err))
	return err
}

func (s *shaky) List(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	all, err := s.Provider.List(ctx, installation)
	return all, s.ended(ctx, err)
}

func (s *shaky) Get(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	inst, err := s.Provider.Get(ctx, ref)
	return inst, s.ended(ctx, err)
}

// outage is a warm pool on a shaky cloud, with one inventory made: the next is due in a minute of the database's time.
type outage struct {
	*coderdtest.World
	t       *testing.T
	cloud   *shaky
	replica *coderdtest.Replica
	clock   *quartz.Mock
	service *inventory.Service
}

func newOutage(t *testing.T) *outage {
	t.Helper()
	o := &outage{t: t, cloud: &shaky{}, clock: quartz.NewMock(t)}
	o.World = coderdtest.NewWorldWith(t, sim.Behavior{}, func(p provider.Provider) provider.Provider {
		o.cloud.Provider = p.(*sim.Provider)
		return o.cloud
	})
	o.replica = o.Start(t, coderdtest.Config{Tick: 100 * time.Millisecond})
	o.replica.Reconciler.Nudge(o.Pool(t, "t", 2, 1)...)
	coderdtest.Eventually(t, "the pool is warm", func() bool { return o.Warm(t, "t") == 2 })
	o.service = inventory.New(inventory.Options{
		Store: o.Store, Writer: workspaces.New(o.Store, workspaces.NewID, "inventory"), Providers: o.Providers, Clock: o.clock,
		Log: slog.Make(), Registerer: prometheus.NewRegistry(), Replica: "inventory", Installation: o.Installation,
		Hints: o.replica.Hints, Calls: &o.cloud.calls,
	})
	_, err := o.service.Pass(context.Background(), "sim")
	require.NoError(t, err)
	return o
}

func (o *outage) breaker() (reason string) {
	o.t.Helper()
	require.NoError(o.t, o.Store.Pool.QueryRow(context.Background(), "SELECT reason FROM inventories").Scan(&reason))
	return reason
}

// within judges as often as the loop does in that time, until it is so.
func (o *outage) within(limit time.Duration, what string, ok func() bool) {
	o.t.Helper()
	for passed := time.Duration(0); passed < limit; passed += inventory.JudgeEvery {
		require.NoError(o.t, o.service.JudgeCalls(context.Background()))
		if ok() {
			return
		}
	}
	o.t.Fatalf("not within %s: %s", limit, what)
}

// Calls are judged every few seconds, whether an inventory is due or not.
func TestBreaker_callsAreJudgedAsTheyEnd(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	trap := o.clock.Trap().NewTicker("inventory", "calls")
	defer trap.Close()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); o.service.Run(ctx) }()
	defer func() { cancel(); <-done }()
	call := trap.MustWait(ctx)
	require.Equal(t, inventory.JudgeEvery, call.Duration)
	call.MustRelease(ctx)
	for range 10 {
		o.cloud.calls.Add("sim", "error")
	}
	for range inventory.JudgeEvery / time.Second { // leases are extended in between
		o.clock.Advance(time.Second).MustWait(ctx)
	}
	coderdtest.Eventually(t, "the breaker opens", func() bool { return o.breaker() != "" })
}

// S3: an outage between two inventories opens the breaker within 15 s of the tenth call that failed, and it closes within 15 s
// of the first that succeed. Meanwhile nothing is created, and what can be deleted is.
func TestBreaker_outageBetweenInventories(t *testing.T) {
	t.Parallel()
	o := newOutage(t)
	ctx := context.Background()
	inventories := func() (n int) {
		require.NoError(t, o.Store.Pool.QueryRow(ctx, "SELECT attempt FROM inventories").Scan(&n))
		return n
	}
	made := inventories()
	p, err := o.Providers.Get("sim")
	require.NoError(t, err)

	o.cloud.down.Store(true)
	for range 10 {
		_, err := p.Get(ctx, provider.Ref{Name: "any"})
		require.Error(t, err)
	}
	o.within(15*time.Second, "the breaker opens", func() bool { return o.breaker() != "" })
	require.Regexp(t, `^1\d of 1\d calls failed$`, o.breaker())

	victim := uuid.Nil
	require.NoError(t, o.Store.Pool.QueryRow(ctx, "SELECT id FROM workspaces WHERE state = 'ready' LIMIT 1").Scan(&victim))
	_, err = o.replica.Writer.Delete(ctx, workspaces.Actor{UserID: workspaces.Prewarm}, victim, false)
	require.NoError(t, err)
	o.replica.Hints.Wake()
	coderdtest.Eventually(t, "deleted while the breaker is open", func() bool { return o.Count(t, "t", "deleted") == 1 })
	require.NotEmpty(t, o.breaker())
	require.Equal(t, 0, o.Count(t, "t", "starting"), "nothing is created")

	o.cloud.down.Store(false)
	o.within(15*time.Second, "the breaker closes", func() bool { return o.breaker() == "" })
	coderdtest.Eventually(t, "the pool is warm again", func() bool { return o.Warm(t, "t") == 2 })
	require.Equal(t, made, inventories(), "no inventory had a part in it")

	// The inventory after it holds nothing against the provider.
	s := inventory.New(inventory.Options{
		Store: o.Store, Writer: workspaces.New(o.Store, workspaces.NewID, "inventory"), Providers: o.Providers, Clock: quartz.NewReal(),
		Log: slog.Make(), Registerer: prometheus.NewRegistry(), Replica: "another", Installation: o.Installation,
		Hints: o.replica.Hints,
	})
	res, err := s.Pass(ctx, "sim")
	require.NoError(t, err)
	require.False(t, res.Breaker.Open(), res.Breaker.Reason)
}

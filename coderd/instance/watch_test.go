package instance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/instancedb"
	"github.com/prewarm-dev/prewarm/database/lifecycledb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// world is a service over a database with ready and claimed workspaces, each of which has an agent that has just
// reported.
type world struct {
	t        *testing.T
	store    *database.Store
	service  *instance.Service
	registry *prometheus.Registry
	hints    atomic.Int32
}

func newWorld(t *testing.T, ready, claimed int) *world {
	t.Helper()
	w := &world{t: t, store: dbtest.Open(t), registry: prometheus.NewRegistry()}
	dbtest.Fleet(t, w.store, dbtest.FleetSize{Pools: 1, Each: ready, Claimed: claimed})
	w.service = w.replica(w.registry)
	for _, id := range w.ids("true") {
		_, err := w.service.Callback(context.Background(), database.Job{WorkspaceID: id, Incarnation: 1, Attempt: 1},
			json.RawMessage(`{"heartbeat_timeout_s": 60}`))
		require.NoError(t, err)
	}
	w.exec("UPDATE agents SET status = 'ready', heartbeat_at = now()")
	return w
}

// replica is another service over the same database.
func (w *world) replica(registry *prometheus.Registry) *instance.Service {
	return instance.New(instance.Options{
		Store: w.store, Writer: workspaces.New(w.store, uuid.New, "test"), Clock: quartz.NewReal(), Log: slog.Make(),
		Registerer: registry, URL: "http://test", Hints: hints.New(w.t.Context(), w, slog.Make()),
	})
}

// Publish counts what the other replicas are told.
func (w *world) Publish(context.Context, string, string) error {
	w.hints.Add(1)
	return nil
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.store.Pool.Exec(context.Background(), sql, args...)
	require.NoError(w.t, err)
}

func (w *world) ids(where string) []uuid.UUID {
	w.t.Helper()
	var ids []uuid.UUID
	require.NoError(w.t, w.store.Pool.QueryRow(context.Background(),
		"SELECT coalesce(array_agg(id ORDER BY name), '{}') FROM workspaces WHERE "+where).Scan(&ids))
	return ids
}

func (w *world) silence(ids ...uuid.UUID) {
	w.t.Helper()
	w.exec("UPDATE agents SET heartbeat_at = now() - interval '61 seconds' WHERE workspace_id = ANY ($1)", ids)
}

func (w *world) count(state string) int {
	w.t.Helper()
	return len(w.ids("state = '" + state + "'"))
}

const long = time.Hour

// Silence moves a ready workspace to starting, with a probe that waits for its agent, and the fourth time out.
func TestSilentReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5, 0)
	ctx := context.Background()
	id := w.ids("true")[0]
	require.NoError(t, w.service.WatchOnce(ctx, long))
	require.Equal(t, 5, w.count("ready"), "all were heard of")
	var most time.Duration // that it can have been silent at first
	for n := range 4 {
		w.exec("UPDATE agents SET heartbeat_at = now()") // the others are not silent, however long this takes
		began := time.Now()
		w.silence(id)
		require.NoError(t, w.service.WatchOnce(ctx, long))
		if n == 0 {
			most = 61*time.Second + time.Since(began)
		}
		require.Equal(t, 4, w.count("ready"))
		row, err := viewsdb.New(w.store).WorkspaceState(ctx, id)
		require.NoError(t, err)
		if n == 3 {
			require.Equal(t, database.WorkspaceStateDraining, row.State)
			break
		}
		require.Equal(t, database.WorkspaceStateStarting, row.State)
		work, err := lifecycledb.New(w.store).JobForWork(ctx, id)
		require.NoError(t, err)
		require.Equal(t, database.AgentStatusSilent, *work.AgentStatus, "what it said before counts no more")
		// As if it had been heard of, and the probe had found it so.
		w.exec("DELETE FROM jobs WHERE workspace_id = $1 AND kind = 'probe'", id)
		w.exec("UPDATE workspaces SET state = 'ready' WHERE id = $1", id)
	}
	history, err := viewsdb.New(w.store).HistoryViews(ctx, id)
	require.NoError(t, err)
	said := regexp.MustCompile(`silent: nothing was heard of its agent for ([0-9hms]+)`).FindStringSubmatch(history[0].Reason)
	require.NotNil(t, said, history[0].Reason)
	silent, err := time.ParseDuration(said[1])
	require.NoError(t, err)
	require.GreaterOrEqual(t, silent, 61*time.Second)
	require.LessOrEqual(t, silent, most.Round(time.Second))
}

// A2: nothing is decided by one who has not watched for long enough, nor when it is most agents that are silent.
func TestNoDecisionFromStaleStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10, 0)
	ctx := context.Background()
	all := w.ids("true")
	w.silence(all[0])
	require.NoError(t, w.service.WatchOnce(ctx, 59*time.Second))
	require.Equal(t, 10, w.count("ready"), "this replica may have come up after the agent's last words")

	w.silence(all[:6]...)
	require.NoError(t, w.service.WatchOnce(ctx, long))
	require.Equal(t, 10, w.count("ready"), "six of ten at once: it may be this side")
	require.InDelta(t, 1, w.metric("prewarm_agents_unheard"), 0)

	w.exec("UPDATE agents SET heartbeat_at = now() WHERE workspace_id = ANY ($1)", all[3:])
	require.NoError(t, w.service.WatchOnce(ctx, long))
	require.Equal(t, 7, w.count("ready"))
	require.InDelta(t, 0, w.metric("prewarm_agents_unheard"), 0)
}

// A2: up to three silent agents are believed to be silent, and any number of up to half of all. More than that are not.
func TestCrowd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		agents, silent int
		believed       bool
	}{{5, 3, true}, {7, 4, false}, {8, 4, true}} {
		t.Run(fmt.Sprintf("%d of %d", c.silent, c.agents), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.agents, 0)
			w.silence(w.ids("true")[:c.silent]...)
			require.NoError(t, w.service.WatchOnce(t.Context(), long))
			starting := 0
			if c.believed {
				starting = c.silent
			}
			require.Equal(t, starting, w.count("starting"))
			require.Equal(t, c.agents-starting, w.count("ready"))
		})
	}
}

// Agents are counted once each: those of ready and claimed workspaces, and none of an earlier incarnation.
func TestPulse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, 2)
	require.NoError(t, w.service.WatchOnce(t.Context(), long))
	require.InDelta(t, 5, w.metric("prewarm_agents"), 0)
	for n, state := range []string{"ready", "claimed"} {
		w.exec("UPDATE workspaces SET incarnation = 2 WHERE id = $1", w.ids("state = '" + state + "'")[0])
		require.NoError(t, w.service.WatchOnce(t.Context(), long))
		require.InDelta(t, 4-n, w.metric("prewarm_agents"), 0, state)
	}
}

// metric is the value of a gauge or counter without labels.
func (w *world) metric(name string) float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	require.NoError(w.t, err)
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue() // one of them is nil, and zero
		}
	}
	require.Fail(w.t, "no metric "+name)
	return 0
}

// Of a silent claimed workspace people are told, once, and nothing is done to it (I2).
func TestSilentClaimed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 0, 4)
	w.silence(w.ids("true")[0])
	for range 3 {
		require.NoError(t, w.service.WatchOnce(context.Background(), long))
	}
	require.Equal(t, 4, w.count("claimed"))
	view, err := viewsdb.New(w.store).AgentView(context.Background(), w.ids("true")[0])
	require.NoError(t, err)
	require.True(t, view.Silent)
	require.InDelta(t, 1, w.metric("prewarm_agent_silent_claimed_total"), 0)
}

// A claim made on another replica is heard of by a hint, which is sent only where there is an agent to tell.
func TestHints(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, 1)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { w.service.Run(ctx); close(done) }()
	claimed := w.ids("state = 'claimed'")
	w.service.Claimed(claimed...)
	require.Eventually(t, func() bool { return w.hints.Load() == 1 }, time.Minute, 10*time.Millisecond)
	w.service.Claimed(w.ids("state = 'ready'")...) // claims that were released already, say
	w.service.Claimed(claimed...)
	require.Eventually(t, func() bool { return w.hints.Load() == 2 }, time.Minute, 10*time.Millisecond)

	// The other replica, at which the agent waits: nothing is missed by being away, as the first look is at the database.
	other := w.replica(prometheus.NewRegistry())
	token, err := other.Callback(ctx, database.Job{WorkspaceID: claimed[0], Incarnation: 1, Attempt: 2},
		json.RawMessage(`{"heartbeat_timeout_s": 60}`))
	require.NoError(t, err)
	i, err := other.Authenticate(ctx, token.Token)
	require.NoError(t, err)
	now, err := other.Await(ctx, i, uuid.Nil)
	require.NoError(t, err)
	require.Equal(t, database.WorkspaceStateClaimed, now.State)

	// Who waits is let go when the replica stops.
	waiting := make(chan error, 1)
	i, err = w.service.Authenticate(ctx, token.Token)
	require.NoError(t, err)
	go func() {
		_, err := w.service.Await(context.WithoutCancel(ctx), i, now.InstanceOfRow.ClaimID.UUID)
		waiting <- err
	}()
	cancel()
	<-done
	select {
	case err := <-waiting:
		require.NoError(t, err)
	case <-time.After(time.Minute):
		t.Fatal("it still waits")
	}
}

// An old key goes when no live agent uses it, and not before.
func TestKeysAreRetired(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, 0)
	ctx := context.Background()
	_, _, err := w.service.Rotate(ctx, w.store, false)
	require.NoError(t, err)
	w.exec("UPDATE signing_keys SET created_at = created_at - interval '2 minutes'")
	retired, err := instancedb.New(w.store).RetireSigningKeys(ctx, false)
	require.NoError(t, err)
	require.Empty(t, retired, "an agent still uses it")
	w.exec("UPDATE workspaces SET state = 'draining'")
	retired, err = instancedb.New(w.store).RetireSigningKeys(ctx, false)
	require.NoError(t, err)
	require.Len(t, retired, 1)
	keys, err := instancedb.New(w.store).SigningKeys(ctx)
	require.NoError(t, err)
	require.Len(t, keys, 1, "the newest stays")
}

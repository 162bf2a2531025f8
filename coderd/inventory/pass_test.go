package inventory_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database/alertsdb"
	"github.com/prewarm-dev/prewarm/database/inventorydb"
)

// moody is a cloud that does not list, or create, when told so.
type moody struct {
	*sim.Provider
	mute   atomic.Bool
	refuse atomic.Pointer[string] // the name of the next workspace that is not created, once chosen
	fussy  atomic.Bool
	stuck  atomic.Bool // nothing can be deleted
}

func (m *moody) Delete(ctx context.Context, ref provider.Ref) error {
	if m.stuck.Load() {
		return errors.New("no answer")
	}
	return m.Provider.Delete(ctx, ref)
}

func (m *moody) List(ctx context.Context, installation uuid.UUID) ([]provider.Instance, error) {
	if m.mute.Load() {
		return nil, errors.New("no answer")
	}
	return m.Provider.List(ctx, installation)
}

func (m *moody) Create(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	if m.fussy.CompareAndSwap(true, false) {
		m.refuse.Store(&req.Name)
	}
	if name := m.refuse.Load(); name != nil && *name == req.Name {
		return provider.Instance{}, provider.Permanent(errors.New("not this one"))
	}
	return m.Provider.Create(ctx, req)
}

type bench struct {
	*coderdtest.World
	t       *testing.T
	cloud   *moody
	replica *coderdtest.Replica
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t, cloud: &moody{}}
	b.World = coderdtest.NewWorldWith(t, sim.Behavior{}, func(p provider.Provider) provider.Provider {
		b.cloud.Provider = p.(*sim.Provider)
		return b.cloud
	})
	b.replica = b.Start(t, coderdtest.Config{Tick: 200 * time.Millisecond})
	b.exec("INSERT INTO times_at_work (began_at, seen_at) VALUES (prewarm_now() - interval '1 day', prewarm_now() + interval '1 day')")
	return b
}

func (b *bench) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.Store.Pool.Exec(context.Background(), sql, args...)
	require.NoError(b.t, err)
}

func (b *bench) one(sql string, args ...any) (text string) {
	b.t.Helper()
	require.NoError(b.t, b.Store.Pool.QueryRow(context.Background(), sql, args...).Scan(&text))
	return text
}

// service makes inventories as one replica of an installation does.
func (b *bench) service(installation uuid.UUID, log ...slog.Logger) *inventory.Service {
	log = append(log, slog.Make())
	return inventory.New(inventory.Options{
		Store: b.Store, Writer: workspaces.New(b.Store, workspaces.NewID, "inventory"), Providers: b.Providers,
		Clock: quartz.NewReal(), Log: log[0], Registerer: prometheus.NewRegistry(), Replica: "inventory",
		Installation: installation, Hints: b.replica.Hints, Grace: time.Nanosecond,
	})
}

// pass makes an inventory, by a replica of its own, and returns how often it came to each verdict.
func (b *bench) pass() (map[inventory.Verdict]int, inventory.Result) {
	b.t.Helper()
	res, err := b.service(b.Installation).Pass(context.Background(), "sim")
	require.NoError(b.t, err)
	require.False(b.t, res.Held)
	return res.Counts, res
}

// passes makes inventories until one gives these verdicts: workers are at it meanwhile.
func (b *bench) passes(what string, want map[inventory.Verdict]int) {
	b.t.Helper()
	coderdtest.Eventually(b.t, what, func() bool {
		n, _ := b.pass()
		return fmt.Sprint(n) == fmt.Sprint(want)
	})
}

// warm applies a pool and waits for it.
func (b *bench) warm(n int) {
	b.t.Helper()
	b.replica.Reconciler.Nudge(b.Pool(b.t, "t", n, 1)...)
	coderdtest.Eventually(b.t, "the pool is warm", func() bool { return b.Warm(b.t, "t") == n })
}

// stray makes a resource that no row knows.
func (b *bench) stray(name string, installation uuid.UUID) {
	b.t.Helper()
	_, err := b.cloud.Provider.Create(context.Background(), provider.CreateRequest{
		Name: name, Tags: provider.Tags{Installation: installation, WorkspaceID: uuid.New(), Incarnation: 1},
	})
	require.NoError(b.t, err)
}

func (b *bench) has(name string) bool {
	b.t.Helper()
	_, err := b.cloud.Provider.Get(context.Background(), provider.Ref{Name: name})
	if !errors.Is(err, provider.ErrNotFound) {
		require.NoError(b.t, err)
	}
	return err == nil
}

// vanish takes the resource of a ready workspace away behind everybody's back, and returns its name.
func (b *bench) vanish(state string) string {
	b.t.Helper()
	name := b.one("SELECT name FROM workspaces WHERE state::text = $1 ORDER BY id LIMIT 1", state)
	require.NoError(b.t, b.cloud.Provider.Delete(context.Background(), provider.Ref{Name: name}))
	return name
}

// S3, I2, I6: a prebuild that vanished is quarantined and replaced, once two inventories agree; a claimed one stays
// claimed, and people are told once.
func TestPass_vanished(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.warm(3)
	res, err := b.World.Claim(t, b.replica, "t", claim.Request{})
	require.NoError(t, err)
	coderdtest.Eventually(t, "refilled", func() bool { return b.Warm(t, "t") == 3 })
	b.passes("all is well", map[inventory.Verdict]int{inventory.OK: 4})

	gone, claimed := b.vanish("ready"), b.vanish("claimed")
	require.Equal(t, res.Workspace.Name, claimed)
	n, _ := b.pass()
	require.Equal(t, map[inventory.Verdict]int{inventory.OK: 2, inventory.Missing: 1, inventory.ClaimedMissing: 1}, n)
	require.Equal(t, "ready", b.one("SELECT state::text FROM workspaces WHERE name = $1", gone), "one inventory is not enough")
	b.pass() // another replica's
	require.Equal(t, "quarantined", b.one("SELECT state::text FROM workspaces WHERE name = $1", gone))
	require.Contains(t, b.one("SELECT fault FROM workspaces WHERE name = $1", gone), "the provider does not have it")
	coderdtest.Eventually(t, "replaced", func() bool { return b.Warm(t, "t") == 3 })
	for range 3 {
		b.pass()
	}
	require.Equal(t, "claimed", b.one("SELECT state::text FROM workspaces WHERE name = $1", claimed))
	require.Equal(t, "1", b.one("SELECT count(*)::text FROM audit_log WHERE action = 'workspace.missing' AND target_name = $1", claimed))
	rows, err := alertsdb.New(b.Store).MissingClaimed(context.Background())
	require.NoError(t, err)
	require.Len(t, rows, 1)

	// What was missing leaves quarantine for good by itself, though nothing is there.
	b.exec("UPDATE workspaces SET expires_at = prewarm_now() WHERE name = $1", gone)
	coderdtest.Eventually(t, "it ends", func() bool {
		return b.one("SELECT state::text FROM workspaces WHERE name = $1", gone) == "deleted"
	})
}

// I4, S6: a tagged resource that no row knows is deleted once two inventories agree; nothing of another installation is
// touched, nor seen, and neither is what was made in a time that this database knows nothing of.
func TestPass_orphans(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.warm(2)
	another := uuid.New()
	b.stray("stray", b.Installation)
	b.stray("another", another)
	n, _ := b.pass()
	require.Equal(t, 1, n[inventory.Orphan])
	require.True(t, b.has("stray"), "one inventory is not enough")
	b.pass()
	require.False(t, b.has("stray"))
	require.True(t, b.has("another"))
	require.Equal(t, "1", b.one("SELECT count(*)::text FROM audit_log WHERE action = 'provider.delete-orphan'"))

	theirs, err := b.service(another).Pass(context.Background(), "sim")
	require.NoError(t, err)
	require.NotEmpty(t, theirs.Entries)
	for _, e := range theirs.Entries {
		if e.Resource != nil {
			require.Equal(t, "another", e.Resource.Name)
		}
	}
	require.Equal(t, 2, b.Warm(t, "t"))

	// A database that was put back.
	b.exec("DELETE FROM times_at_work")
	b.stray("lost", b.Installation)
	for range 3 {
		n, _ = b.pass()
		require.Equal(t, 1, n[inventory.Unknown])
	}
	require.True(t, b.has("lost"))
}

// What a deleted workspace left is deleted at once, when the grace is over.
func TestPass_leftOver(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.warm(1)
	name := b.one("SELECT name FROM workspaces WHERE state = 'ready'")
	id := uuid.MustParse(b.one("SELECT id::text FROM workspaces WHERE state = 'ready'"))
	b.replica.Reconciler.Nudge(b.Pool(t, "t", 0, 1)...)
	coderdtest.Eventually(t, "it is gone", func() bool { return b.Count(t, "t", "deleted") == 1 })
	_, err := b.cloud.Provider.Create(context.Background(), provider.CreateRequest{
		Name: name, Tags: provider.Tags{Installation: b.Installation, WorkspaceID: id, Incarnation: 1},
	})
	require.NoError(t, err)
	b.pass()
	require.False(t, b.has(name))
}

// A provider that nobody has confirmed: its orphans are only shown.
func TestPass_unconfirmed(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.exec("UPDATE providers SET confirmed_at = NULL WHERE name = 'sim'")
	b.stray("stray", b.Installation)
	for range 3 {
		n, _ := b.pass()
		require.Equal(t, 1, n[inventory.Orphan])
	}
	require.True(t, b.has("stray"))
	var judged []inventory.Judged
	_, err := b.service(b.Installation).Look(context.Background(), "sim", func(j inventory.Judged) { judged = append(judged, j) })
	require.NoError(t, err)
	require.Len(t, judged, 1)
	require.Equal(t, 3, judged[0].Seen)
	require.Contains(t, judged[0].Next, "not confirmed")
	n, err := inventorydb.New(b.Store).ConfirmProvider(context.Background(), "sim")
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	b.pass()
	require.False(t, b.has("stray"))
}

// S3, I6: a listing that fails opens the breaker: nothing is created or deleted, claims go on, the plan says why. It
// closes alone after clean inventories, and everything goes on.
func TestBreaker_outage(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.warm(2)
	b.cloud.mute.Store(true)
	_, res := b.pass()
	require.Equal(t, "the listing failed: list workspaces: no answer", "the listing failed: list workspaces: "+lastPart(res.Breaker.Reason))
	require.Nil(t, res.Counts)

	claimed, err := b.World.Claim(t, b.replica, "t", claim.Request{})
	require.NoError(t, err, "claims go on")
	coderdtest.Eventually(t, "the plan says why nothing is created", func() bool {
		return b.one(`SELECT coalesce(string_agg(ledger::text, ' '), '') FROM preset_status`) != "" &&
			b.one(`SELECT (count(*) > 0)::text FROM preset_status WHERE ledger::text LIKE '%breaker of provider sim%S3%' OR ledger::text LIKE '%S3%breaker of provider sim%'`) == "true"
	})
	_, err = b.replica.Writer.Release(context.Background(), workspaces.Actor{UserID: b.Owner, Source: "test"}, claimed.Workspace.ID)
	require.NoError(t, err)
	coderdtest.Eventually(t, "it waits to be deleted", func() bool { return b.Count(t, "t", "deleting") == 1 })
	jobs := func() string {
		return b.one(`SELECT coalesce(string_agg(kind::text || ' ' || state::text || ' ' || attempt, ', '), '') FROM jobs WHERE state IN ('pending', 'running')`)
	}
	for range 5 { // workers look for jobs meanwhile
		b.replica.Worker.Wake()
		b.pass()
	}
	require.Equal(t, "delete pending 0", jobs())
	require.Equal(t, 1, b.Count(t, "t", "ready", "starting", "provisioning"))

	b.cloud.mute.Store(false)
	for n := 1; n <= 3; n++ {
		_, res = b.pass()
		require.Equal(t, n < 3, res.Breaker.Open(), "after %d clean ones", n)
	}
	coderdtest.Eventually(t, "all goes on", func() bool { return b.Warm(t, "t") == 2 && jobs() == "" })
	require.Equal(t, "provider.breaker-open, provider.breaker-close",
		b.one("SELECT string_agg(action, ', ' ORDER BY id) FROM audit_log WHERE action LIKE 'provider.breaker%'"))
}

func lastPart(reason string) string { return reason[max(0, len(reason)-len("no answer")):] }

// S3, I6: when nearly all is gone at once, that is not believed at first. When inventories go on saying so, it is; the
// pool is made anew, without a person.
func TestBreaker_mass(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.warm(12)
	b.passes("all is well", map[inventory.Verdict]int{inventory.OK: 12})
	for range 11 {
		name := b.one("SELECT name FROM workspaces WHERE state = 'ready' ORDER BY id LIMIT 1")
		all, err := b.cloud.All()
		require.NoError(t, err)
		require.NotEmpty(t, name)
		require.NoError(t, b.cloud.Provider.Delete(context.Background(), provider.Ref{Name: all[0].Name}))
	}
	_, res := b.pass()
	require.Equal(t, "11 new discrepancies among 12", res.Breaker.Reason)
	for n := 1; n < 3; n++ {
		_, res = b.pass()
		require.True(t, res.Breaker.Open())
		require.Equal(t, 12, b.Count(t, "t", "ready"), "nothing is done about it yet")
	}
	_, res = b.pass()
	require.False(t, res.Breaker.Open())
	require.Equal(t, 11, res.Done)
	coderdtest.Eventually(t, "made anew", func() bool { return b.Warm(t, "t") == 12 })
}

// One inventory at a time; who holds it may be another replica.
func TestPass_oneAtATime(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.pass()
	b.exec("UPDATE inventories SET leased_until = prewarm_now() + interval '1 hour', leased_by = 'another'")
	res, err := b.service(b.Installation).Pass(context.Background(), "sim")
	require.NoError(t, err)
	require.True(t, res.Held)
}

// S6: a workspace whose resource was made without anybody recording it gets its id.
func TestPass_adopts(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.warm(1)
	id := b.one("SELECT provider_id FROM workspaces WHERE state = 'ready'")
	b.exec("UPDATE workspaces SET provider_id = ''")
	b.pass()
	require.Empty(t, b.one("SELECT provider_id FROM workspaces"))
	b.pass()
	require.Equal(t, id, b.one("SELECT provider_id FROM workspaces"))
	require.Equal(t, "ready", b.one("SELECT state::text FROM workspaces"))
}

// S5: one failed create does not stop the batch.
func TestLimits_oneFailureStopsNoOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.cloud.fussy.Store(true)
	b.replica.Reconciler.Nudge(b.Pool(t, "t", 8, 1)...)
	coderdtest.Eventually(t, "the others are made, and the one is given up", func() bool {
		return b.Count(t, "t", "ready") >= 7 && b.Count(t, "t", "deleted") == 1
	})
	require.NotNil(t, b.cloud.refuse.Load())
}

// S5: creates are begun at the provider's rate, shared by all replicas, and the plan says so.
func TestLimits_rate(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	second := b.Start(t, coderdtest.Config{Tick: 100 * time.Millisecond})
	affected := b.Apply(t, `
providers: [{name: sim, kind: sim, create_every: 1h, create_burst: 2}]
templates:
  - name: t
    provider: sim
    spec: {create_latency: 0s}
    presets: [{name: default, prebuilds: {instances: 5}}]
`)
	b.replica.Reconciler.Nudge(affected...)
	second.Reconciler.Nudge(affected...)
	coderdtest.Eventually(t, "two are made", func() bool { return b.Warm(t, "t") == 2 })
	coderdtest.Eventually(t, "and the plan says why no more are", func() bool {
		return b.one("SELECT (count(*) > 0)::text FROM preset_status WHERE ledger::text LIKE '%rate of provider sim: one each 1h0m0s%'") == "true"
	})
	seq := b.one("SELECT seq::text FROM reconcile_fence")
	coderdtest.Eventually(t, "more passes", func() bool { return b.one("SELECT (seq > $1::bigint + 5)::text FROM reconcile_fence", seq) == "true" })
	require.Equal(t, "2", b.one("SELECT count(*)::text FROM workspaces"))
	b.exec("UPDATE create_rates SET full_at = full_at - interval '1 hour'") // an hour later
	coderdtest.Eventually(t, "one more", func() bool { return b.Warm(t, "t") == 3 })
	require.Equal(t, "3", b.one("SELECT count(*)::text FROM workspaces"))
}

// What is found is looked at again no later than at the next inventory in turn, also where they were rarer before.
func TestRelease_afterRarerOnes(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.pass()
	b.exec("UPDATE inventories SET full_at = prewarm_now() + interval '1 hour'")
	b.stray("stray", b.Installation)
	n, _ := b.pass()
	require.Equal(t, 1, n[inventory.Orphan])
	require.Equal(t, "true", b.one(`SELECT (i.due_at <= prewarm_now() + p.inventory_every_s * interval '1 second')::text
		FROM inventories i JOIN providers p ON p.name = i.provider WHERE i.provider = 'sim'`))
}

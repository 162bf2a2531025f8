package alerts_test

import (
	"context"
	"encoding/json"
	"maps"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/alerts"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// scrape returns the values of one metric whose labels include those given, by the value of the label named last.
func scrape(t *testing.T, reg *prometheus.Registry, name string, with map[string]string, by string) map[string]float64 {
	t.Helper()
	families, err := reg.Gather()
	require.NoError(t, err)
	values := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := labelsOf(m)
			fits := true
			for k, v := range with {
				fits = fits && labels[k] == v
			}
			if fits {
				values[labels[by]] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return values
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// exported is a registry with gauges that are always read anew.
func exported(store *database.Store) (*prometheus.Registry, *alerts.Reader) {
	reader := alerts.NewReader(store, quartz.NewReal(), provider.NewRegistry(nil, nil).Refuses)
	reg := prometheus.NewRegistry()
	reg.MustRegister(alerts.NewCollector(reader, slog.Make()))
	return reg, reader
}

// C3: once a pool is at rest, the gauges are what the live counts say, for each count that there is.
func TestC3_countsOfAPool(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "go", 3, 1)
	w.Pool(t, "java", 2, 1)
	r := w.Start(t, coderdtest.Config{Tick: 200 * time.Millisecond})
	coderdtest.Eventually(t, "warm", func() bool { return w.Warm(t, "go") == 3 && w.Warm(t, "java") == 2 })
	_, err := w.Claim(t, r, "go", claim.Request{})
	require.NoError(t, err)
	// A pass may write what it saw in the midst of the refill between two readings: all of it is to be true at once.
	var got map[string]float64
	var reg *prometheus.Registry
	coderdtest.Eventually(t, "the gauges and the live counts agree", func() bool {
		reg, _ = exported(w.Store)
		got = scrape(t, reg, "prewarm_preset_workspaces", map[string]string{"template": "go", "organization": "default"}, "count")
		warm := scrape(t, reg, "prewarm_preset_workspaces", map[string]string{"count": "eligible"}, "template")
		return maps.Equal(got, live(t, w, "go")) && got["actual"] == 3 && got["claimed"] == 1 &&
			maps.Equal(warm, map[string]float64{"go": 3, "java": 2})
	})
	require.Len(t, got, 14)
	stale := scrape(t, reg, "prewarm_pass_staleness_seconds", nil, "")
	require.Len(t, stale, 1)
	require.Less(t, stale[""], 60.0)
}

// live is what the API would say.
func live(t *testing.T, w *coderdtest.World, template string) map[string]float64 {
	t.Helper()
	views, err := viewsdb.New(w.Store).PresetViews(context.Background(), viewsdb.PresetViewsParams{OrganizationID: auth.DefaultOrganizationID})
	require.NoError(t, err)
	for _, p := range views {
		if p.Template == template {
			raw, err := json.Marshal(map[string]int32{
				"desired": p.Desired, "actual": p.Actual, "standby": p.Standby, "eligible": p.Eligible, "starting": p.Starting,
				"stopping": p.Stopping, "deleting": p.Deleting, "outdated": p.Outdated, "expired": p.Expired,
				"quarantined": p.Quarantined, "waiting": p.Waiting, "queued": p.Queued, "claimed": p.Claimed, "extraneous": p.Extraneous,
			})
			require.NoError(t, err)
			values := map[string]float64{}
			require.NoError(t, json.Unmarshal(raw, &values))
			return values
		}
	}
	t.Fatalf("no template %s", template)
	return nil
}

// failing refuses every create for good.
type failing struct{ provider.Provider }

func (failing) Create(context.Context, provider.CreateRequest) (provider.Instance, error) {
	return provider.Instance{}, provider.Permanent(context.DeadlineExceeded)
}

// C8, C10: a hard limit and pauses show, and end.
func TestC8_hardLimitAndPauses(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(p provider.Provider) provider.Provider { return failing{p} })
	w.Pool(t, "go", 1, 1)
	_, err := w.Store.Pool.Exec(ctx, `INSERT INTO preset_failures (preset_id, pool_key, streak, permanent, last_error, last_at)
		SELECT id, pool_key, 2, 2, 'no quota', now() - interval '1 hour' FROM presets`)
	require.NoError(t, err)
	w.Start(t, coderdtest.Config{Tick: 200 * time.Millisecond})
	coderdtest.Eventually(t, "stopped", func() bool {
		reg, reader := exported(w.Store)
		snap, err := reader.Read(ctx)
		require.NoError(t, err)
		return scrape(t, reg, "prewarm_preset_hard_limit", nil, "template")["go"] == 1 && snap.Presets[0].HardLimit != ""
	})
	reg, _ := exported(w.Store)
	require.GreaterOrEqual(t, scrape(t, reg, "prewarm_preset_failure_streak", nil, "template")["go"], 3.0)
	require.Empty(t, scrape(t, reg, "prewarm_paused", nil, "scope"))

	_, err = w.Store.Pool.Exec(ctx, `INSERT INTO pauses (id, scope, target, reason, created_at, created_by, expires_at)
		SELECT gen_random_uuid(), s.scope::pause_scope, s.target, 'secret reason', now(), $1, s.until
		FROM (VALUES ('global', '', NULL), ('provider', 'sim', now() + interval '1 hour'), ('provider', 'old', now()),
		             ('preset', (SELECT id::text FROM presets), NULL)) s (scope, target, until)`, w.Owner)
	require.NoError(t, err)
	reg, _ = exported(w.Store)
	require.Equal(t, map[string]float64{"": 1, "sim": 1, "go/default": 1}, scrape(t, reg, "prewarm_paused", nil, "target"))
}

// Any number of scrapers cost what one does: what was read is good for some seconds, and no longer.
func TestCached(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Pool(t, "go", 1, 1)
	clock := quartz.NewMock(t)
	reader := alerts.NewReader(w.Store, clock, w.Providers.Refuses)
	first, err := reader.Read(ctx)
	require.NoError(t, err)
	require.True(t, first.NoPass)
	w.Pool(t, "java", 1, 1)
	clock.Advance(4 * time.Second)
	again, err := reader.Read(ctx)
	require.NoError(t, err)
	require.Same(t, first, again)
	clock.Advance(time.Second)
	again, err = reader.Read(ctx)
	require.NoError(t, err)
	require.Len(t, again.Presets, 2)
}

// Without a database there are no gauges, rather than old ones, and everything else is exported still.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	away, err := database.Open(context.Background(), "postgres://nobody@127.0.0.1:1/nothing", database.Options{})
	require.NoError(t, err)
	t.Cleanup(away.Close)
	reg, _ := exported(away)
	families, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	require.Equal(t, map[string]float64{"": 2}, scrape(t, reg, "prewarm_gauges_errors_total", nil, ""))
}

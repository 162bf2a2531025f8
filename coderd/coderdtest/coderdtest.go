// Package coderdtest runs replicas inside a test: the real reconciler, workers and claims over a real PostgreSQL and the
// sim provider, without the API. Tests of one of them use it from their external test package.
package coderdtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/humanlog"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/pubsub"
	"github.com/prewarm-dev/prewarm/database/serverdb"
)

// World is one database and one cloud, for any number of replicas.
type World struct {
	URL          string
	Store        *database.Store
	Cloud        *sim.Provider
	Providers    *provider.Registry
	Installation uuid.UUID
	Owner        uuid.UUID // a user to claim as
}

// NewWorld makes an empty one. The provider "sim" behaves as told.
func NewWorld(t testing.TB, behavior sim.Behavior) *World {
	t.Helper()
	return NewWorldWith(t, behavior, func(p provider.Provider) provider.Provider { return p })
}

// NewWorldWith puts something between the workers and the cloud, such as a provider that fails when told to.
func NewWorldWith(t testing.TB, behavior sim.Behavior, wrap func(provider.Provider) provider.Provider) *World {
	t.Helper()
	w := &World{URL: dbtest.URL(t)}
	w.Store = dbtest.OpenURL(t, w.URL, database.Options{MaxConns: 40})
	t.Cleanup(func() { dbtest.CheckReferences(t, w.Store) }) // before the store closes, after the replicas have stopped
	ctx := context.Background()
	var err error
	w.Installation, err = w.Store.EnsureInstallation(ctx)
	require.NoError(t, err)
	_, _, err = auth.EnsureOwner(ctx, w.Store, t.TempDir())
	require.NoError(t, err)
	require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT id FROM users WHERE name = 'owner'").Scan(&w.Owner))
	require.NoError(t, serverdb.New(w.Store).EnsureProvider(ctx, serverdb.EnsureProviderParams{Name: "sim", Kind: "sim"}))
	w.Cloud, err = sim.New(sim.Options{Behavior: behavior, Clock: quartz.NewReal()})
	require.NoError(t, err)
	w.Providers = provider.NewRegistry(map[string]provider.Factory{
		"sim": func(json.RawMessage) (provider.Provider, error) { return wrap(w.Cloud), nil },
	}, database.InTransaction)
	w.Providers.From(ctx, quartz.NewReal(), replica.Configured(w.Store))
	require.NoError(t, w.Providers.Read(ctx))
	return w
}

// Apply applies a configuration as the owner and returns the templates that need a pass.
func (w *World) Apply(t testing.TB, yaml string) []uuid.UUID {
	t.Helper()
	service := &templates.Service{Store: w.Store, NewProvider: w.Providers.New}
	by := auth.Identity{
		Principal:  auth.Principal{UserID: w.Owner, User: "owner"},
		Membership: auth.Membership{OrganizationID: auth.DefaultOrganizationID, Organization: "default", Role: database.RoleOwner},
	}
	res, err := service.Apply(context.Background(), templates.Request{By: by, File: "test.yaml", Source: yaml})
	require.NoError(t, err)
	return res.Templates
}

// Pool applies a template of that name with a preset `default` of n instances. Another version is another spec, by a
// latency of so many nanoseconds, and so another pool. Outdated prebuilds are not kept claimable.
func (w *World) Pool(t testing.TB, name string, n, version int) []uuid.UUID {
	t.Helper()
	return w.Apply(t, fmt.Sprintf(`
templates:
  - name: %s
    provider: sim
    keep_outdated: false
    spec: {create_latency: 0s-%dns}
    presets:
      - name: default
        prebuilds: {instances: %d}
`, name, version, n))
}

// Preset returns the id of a template's preset `default`.
func (w *World) Preset(t testing.TB, template string) uuid.UUID {
	t.Helper()
	var id uuid.UUID
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), `SELECT p.id FROM presets p
		JOIN templates t ON t.id = p.template_id
		WHERE t.name = $1 AND p.name = 'default' AND p.deleted_at IS NULL AND t.deleted_at IS NULL`, template).Scan(&id))
	return id
}

// Count counts a template's workspaces in any of the states.
func (w *World) Count(t testing.TB, template string, states ...string) int {
	t.Helper()
	var n int
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), `SELECT count(*) FROM workspaces w
		JOIN templates t ON t.id = w.template_id
		WHERE t.name = $1 AND w.state::text = ANY ($2)`, template, states).Scan(&n))
	return n
}

// Warm counts a template's ready workspaces of its active version.
func (w *World) Warm(t testing.TB, template string) int {
	t.Helper()
	var n int
	require.NoError(t, w.Store.Pool.QueryRow(context.Background(), `SELECT count(*) FROM workspaces w
		JOIN presets p ON p.id = w.preset_id AND p.pool_key = w.pool_key JOIN templates t ON t.id = p.template_id
		WHERE t.name = $1 AND w.state = 'ready'`, template).Scan(&n))
	return n
}

// Replica is one running replica.
type Replica struct {
	*replica.Replica
	Store   *database.Store
	Metrics *prometheus.Registry
	Run     func(loops ...func(context.Context)) // runs more of its loops
	stop    func()
}

// Stop ends the replica in order and waits for it.
func (r *Replica) Stop() { r.stop() }

// Counted is what a metric of the replica has counted, by the values of the labels, with a space between them: a counter's value, or
// how many values a histogram has.
func (r *Replica) Counted(t testing.TB, metric string, labels ...string) map[string]float64 {
	t.Helper()
	families, err := r.Metrics.Gather()
	require.NoError(t, err)
	counted := map[string]float64{}
	for _, family := range families {
		if family.GetName() != metric {
			continue
		}
		for _, m := range family.GetMetric() {
			has := map[string]string{}
			for _, l := range m.GetLabel() {
				has[l.GetName()] = l.GetValue()
			}
			values := make([]string, len(labels))
			for i, label := range labels {
				values[i] = has[label]
			}
			counted[strings.Join(values, " ")] += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return counted
}

// Config of a replica. The zero value is a replica with a tick of 15 s that passes and works, listening. Other loops run
// where a test says so (Run).
type Config struct {
	Name   string
	Tick   time.Duration
	Deaf   bool          // no LISTEN: it hears nothing of the others
	Lease  time.Duration // of jobs
	Grace  time.Duration // when stopping
	NoWork bool          // passes and claims only
	NoPass bool          // work and claims only
	// Parts may change what the replica is built from, such as the forges that it knows; nil: nothing.
	Parts func(*replica.Parts)
}

// Start starts a replica, to be stopped with the test.
func (w *World) Start(t testing.TB, c Config) *Replica {
	t.Helper()
	c.Tick = cmp.Or(c.Tick, 15*time.Second)
	if c.Name == "" {
		c.Name = "replica-" + strings.ToLower(rand.Text()[:6])
	}
	log := slog.Make()
	if os.Getenv("PREWARM_TEST_LOG") != "" {
		log = slog.Make(humanlog.Sink(os.Stderr)).Named(c.Name)
	}
	r := &Replica{
		Store:   dbtest.OpenURL(t, w.URL, database.Options{Replica: c.Name, MaxConns: 40}),
		Metrics: prometheus.NewRegistry(),
	}
	ctx, cancel := context.WithCancel(context.Background())
	clock := quartz.NewReal()
	ps := pubsub.New(ctx, r.Store, clock, log)
	parts := replica.Parts{
		Name: c.Name, Installation: w.Installation, Store: r.Store, Clock: clock, Log: log, Registerer: r.Metrics,
		Publisher: ps, Providers: w.Providers, Tick: c.Tick, Lease: c.Lease, Grace: c.Grace, URL: "http://test",
	}
	if c.Parts != nil {
		c.Parts(&parts)
	}
	r.Replica = replica.New(ctx, parts)
	if !c.Deaf {
		r.Listen(ps)
	}
	r.Run = func(loops ...func(context.Context)) { r.Start(ctx, loops...) }
	if !c.NoPass {
		r.Run(r.Reconciler.Run)
	}
	if !c.NoWork {
		r.Run(r.Worker.Run)
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		r.Wait()
		ps.Close()
	})
	t.Cleanup(r.stop)
	return r
}

// Claim claims from a template's preset `default` as the owner.
func (w *World) Claim(t testing.TB, r *Replica, template string, req claim.Request) (claim.Result, error) {
	t.Helper()
	req.UserID, req.OrganizationID, req.Source = w.Owner, auth.DefaultOrganizationID, "test"
	req.PresetID = w.Preset(t, template)
	req.Mode = cmp.Or(req.Mode, database.ClaimModeRequire)
	return r.Claims.Claim(context.Background(), req)
}

// Eventually polls until ok, and fails the test with what is said after a time that only a hang exceeds.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 10*time.Millisecond, what)
}

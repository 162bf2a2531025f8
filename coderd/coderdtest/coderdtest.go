// Package coderdtest runs replicas inside a test: the real reconciler, workers and claims over a real PostgreSQL and the
// sim provider, without the API. Tests of one of them use it from their external test package.
package coderdtest

import (
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
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/humanlog"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/lifecycle"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/reconcile"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/pubsub"
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
	require.NoError(t, w.Store.EnsureProvider(ctx, database.EnsureProviderParams{Name: "sim", Kind: "sim"}))
	w.Cloud, err = sim.New(sim.Options{Behavior: behavior, Clock: quartz.NewReal()})
	require.NoError(t, err)
	w.Providers = provider.NewRegistry(map[string]provider.Factory{
		"sim": func(json.RawMessage) (provider.Provider, error) { return wrap(w.Cloud), nil },
	}, database.InTransaction)
	w.Providers.Update([]provider.Row{{Name: "sim", Kind: "sim"}})
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
	Reconciler *reconcile.Reconciler
	Worker     *lifecycle.Worker
	Claims     *claim.Service
	Writer     *workspaces.Writer
	Instances  *instance.Service
	Hints      *hints.Hints
	Store      *database.Store
	PubSub     *pubsub.PubSub
	Metrics    *prometheus.Registry
	stop       func()
}

// Stop ends the replica in order and waits for it.
func (r *Replica) Stop() { r.stop() }

// Config of a replica. The zero value is a replica with a tick of 15 s, listening.
type Config struct {
	Name   string
	Tick   time.Duration
	Deaf   bool          // no LISTEN: it hears nothing of the others
	Lease  time.Duration // of jobs
	Grace  time.Duration // when stopping
	NoWork bool          // passes and claims only
	NoPass bool          // work and claims only

	Timeouts lifecycle.Timeouts // of a provider's calls
	// Runner is what workspaces are to be at a forge; nil: there are no forges.
	Runner func(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (*provider.Runner, error)
	// Deregister unregisters runners before their workspaces go; nil: there are no forges.
	Deregister func(ctx context.Context, workspaceID uuid.UUID, incarnation int32) (lifecycle.Verdict, error)
}

// Start starts a replica, to be stopped with the test.
func (w *World) Start(t testing.TB, c Config) *Replica {
	t.Helper()
	if c.Tick == 0 {
		c.Tick = 15 * time.Second
	}
	if c.Name == "" {
		c.Name = "replica-" + strings.ToLower(rand.Text()[:6])
	}
	store := dbtest.OpenURL(t, w.URL, database.Options{Replica: c.Name, MaxConns: 40})
	clock := quartz.NewReal()
	log := slog.Make()
	if os.Getenv("PREWARM_TEST_LOG") != "" {
		log = slog.Make(humanlog.Sink(os.Stderr)).Named(c.Name)
	}
	reg := prometheus.NewRegistry()
	ctx, cancel := context.WithCancel(context.Background())
	ps := pubsub.New(ctx, store, clock, log)
	r := &Replica{Hints: hints.New(ctx, ps, log), Store: store, PubSub: ps, Metrics: reg, Writer: workspaces.New(store, workspaces.NewID, c.Name)}
	r.Reconciler = reconcile.New(reconcile.Options{
		Store: store, Writer: r.Writer, Clock: clock, Log: log, Registerer: reg, Replica: c.Name, Tick: c.Tick,
		Random: rand.Reader, NewID: workspaces.NewID,
		Hints: r.Hints,
	})
	r.Claims = claim.New(claim.Options{
		Store: store, Writer: r.Writer, Clock: clock, Log: log, Registerer: reg, NewID: workspaces.NewID,
		Hints: r.Hints,
	})
	r.Instances = instance.New(instance.Options{
		Store: store, Writer: r.Writer, Clock: clock, Log: log, Registerer: reg, URL: "http://test",
		Hints: r.Hints,
	})
	r.Worker = lifecycle.New(lifecycle.Options{
		Store: store, Writer: r.Writer, Providers: w.Providers, Clock: clock, Log: log, Registerer: reg,
		Replica: c.Name, Installation: w.Installation, Hints: r.Hints, Lease: c.Lease,
		Grace: c.Grace, Callback: r.Instances.Callback, Timeouts: c.Timeouts, Deregister: c.Deregister,
		Runner: c.Runner,
	})
	r.Hints.Connect(hints.Ears{
		Nudge: r.Reconciler.Nudge, Cause: r.Reconciler.Cause, HeardNudge: r.Reconciler.Heard,
		MissedNudges: r.Reconciler.Missed, Wake: r.Worker.Wake, Bound: r.Claims.Bound, MissedBound: r.Claims.Missed,
	})
	if !c.Deaf {
		for _, channel := range hints.Channels() {
			ps.Subscribe(channel, func(_ context.Context, e pubsub.Event) {
				if e.Resync {
					r.Hints.Missed(channel)
					return
				}
				r.Hints.Heard(channel, e.Payload)
			})
		}
	}
	var running sync.WaitGroup
	if !c.NoPass {
		running.Add(1)
		go func() { defer running.Done(); _ = r.Reconciler.Run(ctx) }()
	}
	if !c.NoWork {
		running.Add(1)
		go func() { defer running.Done(); _ = r.Worker.Run(ctx) }()
	}
	r.stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
		r.Claims.Close()
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
	if req.Mode == "" {
		req.Mode = database.ClaimModeRequire
	}
	return r.Claims.Claim(context.Background(), req)
}

// Eventually polls until ok, and fails the test with what is said after a time that only a hang exceeds.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 10*time.Millisecond, what)
}

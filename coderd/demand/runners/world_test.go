package runners_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// cloud is a forge in memory that makes configurations, as GitHub does: a runner is listed, offline, from then on.
type cloud struct {
	forge.Forge // what is not asked here
	mu          sync.Mutex
	runners     map[string]*forge.Runner
	busy        map[int64]bool // has a job
	last        int64
	fail        error // of every call
	lists       int
	removals    int
	registering func() // is called within Register
	removing    func() // is called within RemoveRunner, before it is done
	stuck       int64  // can't be removed: 422
	old         bool   // makes no configurations
	files       bool   // its configurations are made of files, as GitHub's are
	lenient     bool   // removes those with a job as well, as one that looked too early
	unheard     bool   // it has not said its limit on requests
}

func (c *cloud) Register(_ context.Context, r forge.NewRunner) (forge.Registration, error) {
	if c.registering != nil {
		c.registering()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return forge.Registration{}, c.fail
	}
	if c.runners[r.Name] != nil {
		return forge.Registration{}, forge.ErrConflict
	}
	c.last++
	c.runners[r.Name] = &forge.Runner{ID: c.last, Name: r.Name, Status: forge.Offline, Labels: r.Labels}
	configuration := "secret of " + r.Name
	if c.files {
		raw, err := json.Marshal(map[string][]byte{".runner": []byte("1"), ".credentials": []byte("2"), ".credentials_rsaparams": []byte("3")})
		if err != nil {
			return forge.Registration{}, err
		}
		configuration = base64.StdEncoding.EncodeToString(raw)
	}
	return forge.Registration{RunnerID: c.last, JITConfig: configuration, URL: "https://forge.example/acme"}, nil
}

func (c *cloud) Runners(context.Context) ([]forge.Runner, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists++
	if c.fail != nil {
		return nil, xerrors.Errorf("list runners: %w", c.fail)
	}
	list := make([]forge.Runner, 0, len(c.runners))
	for _, r := range c.runners {
		list = append(list, *r)
	}
	return list, nil
}

func (c *cloud) RunnerNamed(_ context.Context, name string) (forge.Runner, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return forge.Runner{}, c.fail
	}
	if r := c.runners[name]; r != nil {
		return *r, nil
	}
	return forge.Runner{}, forge.ErrNotFound
}

func (c *cloud) RemoveRunner(_ context.Context, id int64) error {
	if c.removing != nil {
		c.removing()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	if id == c.stuck {
		return errors.New("status 422: it cannot be removed")
	}
	if c.busy[id] && !c.lenient {
		return forge.ErrBusy
	}
	for name, r := range c.runners {
		if r.ID == id {
			delete(c.runners, name)
			c.removals++
			return nil
		}
	}
	return forge.ErrNotFound
}

func (c *cloud) JIT(context.Context) (bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.old, c.fail
}

func (c *cloud) Page() string { return "https://forge.example/acme" }

func (c *cloud) Tools(context.Context) ([]forge.Tool, error) {
	return []forge.Tool{{OS: "linux", Arch: "x64", URL: "https://forge.example/runner"}}, nil
}

func (c *cloud) Rate() forge.Rate {
	if c.unheard {
		return forge.Rate{}
	}
	return forge.Rate{Limit: 5000, Remaining: 4999, ResetAt: time.Unix(2_000_000_000, 0)}
}

func (c *cloud) failing(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail = err
}

// set connects a runner, gives it a job, or has it gone with an empty status.
func (c *cloud) set(name string, status forge.RunnerStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.runners[name]
	if r == nil {
		c.last++
		r = &forge.Runner{ID: c.last, Name: name}
		c.runners[name] = r
	}
	r.Status = status
	c.busy[r.ID] = status == forge.Active
	if status == "" {
		delete(c.runners, name)
	}
}

func (c *cloud) names() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var names []string
	for name := range c.runners {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (c *cloud) listings() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lists
}

// world is a pool of runners of one forge.
type world struct {
	*coderdtest.World
	t       *testing.T
	cloud   *cloud
	entity  uuid.UUID
	service *runners.Service
	writer  *workspaces.Writer
	hints   *hints.Hints // of all services; heard by the replica, once there is one
	log     warnings     // of the replica
}

// warnings are the log's lines that warn.
type warnings struct {
	mu  sync.Mutex
	all []slog.SinkEntry
}

func (l *warnings) LogEntry(_ context.Context, e slog.SinkEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if e.Level >= slog.LevelWarn {
		l.all = append(l.all, e)
	}
}

func (*warnings) Sync() {}

// fields are those of the first line with that message.
func (l *warnings) fields(message string) map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		if e.Message == message {
			fields := map[string]any{}
			for _, f := range e.Fields {
				fields[f.Name] = f.Value
			}
			return fields
		}
	}
	return nil
}

func (w *world) Forge(context.Context, uuid.UUID) (forge.Forge, error) { return w.cloud, nil }

// newWorld has a template `a` whose preset `default` is of n runners.
func newWorld(t *testing.T, n int) *world {
	t.Helper()
	w := &world{
		World: coderdtest.NewWorld(t, sim.Behavior{}), t: t, entity: uuid.New(),
		cloud: &cloud{runners: map[string]*forge.Runner{}, busy: map[int64]bool{}},
	}
	w.Pool(t, "a", n, 1)
	credential := uuid.New()
	w.exec(`INSERT INTO forge_credentials (id, organization_id, name, kind, url, auth, secret, sealed_by, created_at, updated_at)
		SELECT $1, id, 'c', 'github', 'https://forge.example', 'token', '', 'k', now(), now() FROM organizations`, credential)
	w.exec(`INSERT INTO forge_entities (id, organization_id, name, scope, path, credential_id, webhook_secret, sealed_by,
		  created_at, updated_at)
		SELECT $1, id, 'acme', 'organization', 'acme', $2, '', 'k', now(), now() FROM organizations`, w.entity, credential)
	w.exec(`UPDATE presets SET forge_entity_id = $1, runner_labels = '{linux,x64}', runner_group = 'g'`, w.entity)
	w.writer, w.hints = workspaces.New(w.Store, uuid.New, "test"), hints.Local(hints.Ears{})
	w.service = w.another("test")
	return w
}

// another is the service of another replica.
func (w *world) another(replica string) *runners.Service {
	return runners.New(runners.Options{
		Store: w.Store, Writer: w.writer, Directory: w, Clock: quartz.NewReal(), Log: slog.Make(),
		Registerer: prometheus.NewRegistry(), Replica: replica,
		Hints: w.hints,
		Pace: runners.Pace{
			Idle: 200 * time.Millisecond, Awaited: 100 * time.Millisecond, Fresh: 50 * time.Millisecond,
			Backoff: 300 * time.Millisecond, Look: 20 * time.Millisecond, Settle: 100 * time.Millisecond,
		},
	})
}

// run starts a replica with everything, and what is inside of workspaces: each asks for its configuration, and connects.
func (w *world) run(connects bool) {
	w.t.Helper()
	r := w.Start(w.t, coderdtest.Config{
		Tick: 200 * time.Millisecond, Parts: func(p *replica.Parts) {
			p.Deregister, p.Log = w.service.Deregister, p.Log.AppendSinks(&w.log)
		},
	})
	w.hints.Connect(hints.Ears{Nudge: r.Hints.Nudge, Wake: r.Hints.Wake})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	w.t.Cleanup(func() { cancel(); running.Wait() })
	running.Go(func() { w.service.Run(ctx) })
	running.Go(func() { w.inside(ctx, connects) })
}

func (w *world) inside(ctx context.Context, connects bool) {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for ctx.Err() == nil {
		rows, err := w.Store.Pool.Query(ctx, `SELECT id, incarnation FROM workspaces WHERE state = 'starting'`)
		if err == nil {
			var id uuid.UUID
			var incarnation int32
			for rows.Next() {
				if rows.Scan(&id, &incarnation) != nil {
					break
				}
				c, err := w.service.Configuration(ctx, id, incarnation)
				if err == nil && connects {
					w.cloud.set(c.Name, forge.Idle)
				}
			}
			rows.Close()
		}
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.Store.Pool.Exec(context.Background(), sql, args...)
	require.NoError(w.t, err)
}

// text reads one value as text; null is empty.
func (w *world) text(sql string, args ...any) string {
	w.t.Helper()
	var s string
	require.NoError(w.t, w.Store.Pool.QueryRow(context.Background(),
		"SELECT coalesce(("+sql+")::text, '')", args...).Scan(&s))
	return s
}

// ws is a workspace that no replica made.
type ws struct {
	id   uuid.UUID
	name string
}

// put makes a workspace in a state, and its runner, registered.
func (w *world) put(state database.WorkspaceState, owner uuid.UUID) ws {
	w.t.Helper()
	it := ws{id: uuid.New()}
	it.name = "prebuild-" + it.id.String()[:13]
	claim := uuid.New()
	w.exec(`INSERT INTO workspaces (id, name, organization_id, template_id, template_version_id, preset_id, pool_key, provider,
		  parameters, state, owner_id, claim_id, claimed_at, provider_id, created_at, state_at, ready_at, deleted_at)
		SELECT $1, $2, p.organization_id, p.template_id, t.active_version_id, p.id, p.pool_key, t.provider, '{}',
		  $3::text::workspace_state, $4, CASE WHEN $3 = 'claimed' THEN $5::uuid END, CASE WHEN $3 = 'claimed' THEN now() END, 'p',
		  now() - interval '1 hour', now(), CASE WHEN $3 IN ('ready', 'claimed') THEN now() - interval '1 minute' END,
		  CASE WHEN $3 = 'deleted' THEN now() - interval '2 hours' END
		FROM presets p JOIN templates t ON t.id = p.template_id`, it.id, it.name, string(state), owner, claim)
	w.exec(`INSERT INTO forge_runners (workspace_id, incarnation, preset_id, entity_id, name, status, status_at, status_since,
		  asked_at, handed_out_at, registered_at, created_at)
		SELECT $1, 1, id, $2, $3, 'idle', now() - interval '1 minute', now() - interval '1 minute', now() - interval '1 hour',
		  now() - interval '1 hour', now() - interval '50 minutes', now() - interval '2 hours' FROM presets`, it.id, w.entity, it.name)
	if state == database.WorkspaceStateClaimed {
		w.exec(`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, workspace_id, incarnation,
			  created_at, bound_at)
			SELECT $1, organization_id, id, $2, 'require', 'bound', 'hit', $3, 1, now(), now() FROM presets`, claim, owner, it.id)
	}
	return it
}

// job makes one that runs, or ran, on the runner, as its name says; the workspace is not named.
func (w *world) job(runner string, state database.ForgeJobState) uuid.UUID {
	w.t.Helper()
	id := uuid.New()
	w.exec(`INSERT INTO forge_jobs (id, organization_id, forge_url, job_id, attempt, entity_id, repository, name, labels, state,
		  conclusion, runner_name, queued_at, started_at, completed_at, seen_at, updated_at)
		SELECT $1, id, 'https://forge.example', $5, 1, $2, 'acme/shop', 'build',
		  '{linux}', $3::text::forge_job_state, CASE WHEN $3 = 'completed' THEN 'success' ELSE '' END, $4,
		  now() - interval '30 seconds', now(), CASE WHEN $3 = 'completed' THEN now() END, now(), now()
		FROM organizations`, id, w.entity, string(state), runner, int64(id.ID()))
	return id
}

func (w *world) complete(job uuid.UUID) {
	w.t.Helper()
	w.exec(`UPDATE forge_jobs SET state = 'completed', conclusion = 'success', completed_at = now(), seen_at = now(),
		updated_at = now() WHERE id = $1`, job)
}

func (w *world) state(id uuid.UUID) string {
	w.t.Helper()
	return w.text("SELECT state FROM workspaces WHERE id = $1", id)
}

// reason is that of the last transition.
func (w *world) reason(id uuid.UUID) string {
	w.t.Helper()
	return w.text("SELECT reason FROM workspace_history WHERE workspace_id = $1 ORDER BY at DESC, id DESC LIMIT 1", id)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	coderdtest.Eventually(t, what, ok)
}

func (it ws) String() string { return fmt.Sprintf("%s (%s)", it.name, it.id) }

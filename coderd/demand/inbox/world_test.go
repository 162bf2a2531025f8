package inbox

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"cdr.dev/slog/sloggers/slogtest"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/gitea"
	"github.com/prewarm-dev/prewarm/coderd/demand/github"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

const secret = "a secret of tests"

var defaultOrganization = uuid.MustParse("00000000-0000-4000-8000-000000000001")

// world is a database with two entities: acme, an organization of GitHub, and tea, a repository of a Gitea.
type world struct {
	t         *testing.T
	store     *database.Store
	directory *directory
	acme, tea Entity

	mu      sync.Mutex
	nudged  map[uuid.UUID]int
	settled int
}

// directory knows the entities of a test.
type directory struct {
	mu       sync.Mutex
	entities []Entity
	forges   map[uuid.UUID]forge.Forge
	err      error
}

func (d *directory) find(is func(e Entity) bool) (Entity, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err != nil {
		return Entity{}, d.err
	}
	if i := slices.IndexFunc(d.entities, is); i >= 0 {
		return d.entities[i], nil
	}
	return Entity{}, ErrNoEntity
}

func (d *directory) ByName(_ context.Context, name string) (Entity, error) {
	return d.find(func(e Entity) bool { return e.Name == name })
}

func (d *directory) ByID(_ context.Context, id uuid.UUID) (Entity, error) {
	return d.find(func(e Entity) bool { return e.ID == id })
}

func (d *directory) Forge(_ context.Context, id uuid.UUID) (forge.Forge, error) {
	return d.forges[id], nil
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: dbtest.Open(t), nudged: map[uuid.UUID]int{}}
	w.acme = Entity{
		ID: named("entity", 1), OrganizationID: defaultOrganization, Name: "acme", Kind: github.Kind, KindName: "github",
		ForgeURL: "https://api.github.com", Scope: forge.Organization, Path: "acme", Secrets: []string{secret},
	}
	w.tea = Entity{
		ID: named("entity", 2), OrganizationID: defaultOrganization, Name: "tea", Kind: gitea.Kind, KindName: "gitea",
		ForgeURL: "https://gitea.example", Scope: forge.Repository, Path: "acme/tools", Secrets: []string{secret},
	}
	w.directory = &directory{entities: []Entity{w.acme, w.tea}, forges: map[uuid.UUID]forge.Forge{}}
	dbtest.Fleet(t, w.store, dbtest.FleetSize{Pools: 4})
	for _, e := range w.directory.entities {
		w.exec(`INSERT INTO forge_credentials (id, organization_id, name, kind, url, auth, secret, sealed_by, created_at, updated_at)
			VALUES ($1, $2, $3, $4::text::forge_kind, $5, 'token', '', 'test', now(), now())`,
			e.ID, e.OrganizationID, e.Name, e.KindName, e.ForgeURL)
		w.exec(`INSERT INTO forge_entities (id, organization_id, name, scope, path, credential_id, webhook_secret, sealed_by,
			hook_id, created_at, updated_at) VALUES ($1, $2, $3, $4::text::forge_scope, $5, $1, 'x', 'test', 4711, now() - interval '1 day', now())`,
			e.ID, e.OrganizationID, e.Name, string(e.Scope), e.Path)
	}
	w.preset(1, w.acme, 5, "linux", "self-hosted")
	w.preset(2, w.acme, 0, "large", "linux", "self-hosted")
	w.preset(3, w.tea, 0, "linux")
	for name, preset := range map[string]int{
		"prebuild-aaaa": 1, "prebuild-bbbb": 2, "prebuild-cccc": 1, "prebuild-dddd": 1, "prebuild-eeee": 2,
		"prebuild-gggg": 3, "prebuild-hhhh": 3,
	} {
		w.runner(name, preset)
	}
	return w
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.store.Pool.Exec(context.Background(), sql, args...)
	require.NoError(w.t, err)
}

// preset makes one of dbtest.Fleet's a preset of runners.
func (w *world) preset(n int, e Entity, priority int, labels ...string) {
	w.t.Helper()
	w.exec(`UPDATE presets SET forge_entity_id = $2, priority = $3, runner_labels = $4
		WHERE template_id = (SELECT id FROM templates WHERE name = 't' || $1::integer)`, n, e.ID, priority, labels)
}

// runner makes a workspace known that is registered at the forge of the preset's entity.
func (w *world) runner(name string, preset int) {
	w.t.Helper()
	w.exec(`INSERT INTO forge_runners (workspace_id, incarnation, preset_id, entity_id, name, status, status_at, status_since,
		created_at)
		SELECT md5($1::text)::uuid, 1, p.id, p.forge_entity_id, $1::text, 'idle', now(), now(), now()
		FROM presets p JOIN templates t ON t.id = p.template_id WHERE t.name = 't' || $2::integer`, name, preset)
}

// service is one more replica.
func (w *world) service(replica string) *Service {
	return New(Options{
		Store: w.store, Clock: quartz.NewReal(), Log: slogtest.Make(w.t, &slogtest.Options{IgnoreErrors: true}),
		Registerer: prometheus.NewRegistry(), Replica: replica, NewID: uuid.New, Directory: w.directory,
		Hints: hints.Local(hints.Ears{
			Nudge: func(templates ...uuid.UUID) {
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, id := range templates {
					w.nudged[id]++
				}
			},
			Settle: func() { w.mu.Lock(); defer w.mu.Unlock(); w.settled++ },
		}),
	})
}

// delivery is a recorded webhook.
type delivery struct {
	entity string
	header http.Header
	body   []byte
}

func (d delivery) id() string {
	if id := d.header.Get("X-GitHub-Delivery"); id != "" {
		return id
	}
	return d.header.Get("X-Gitea-Delivery")
}

func recorded(t *testing.T, entity, file string) (list []delivery) {
	t.Helper()
	raw, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	var all []struct {
		Headers map[string]string `json:"headers"`
		Body    json.RawMessage   `json:"body"`
	}
	require.NoError(t, json.Unmarshal(raw, &all))
	for _, one := range all {
		d := delivery{entity: entity, header: http.Header{}, body: one.Body}
		for k, v := range one.Headers {
			d.header.Set(k, v)
		}
		sign(d, secret)
		list = append(list, d)
	}
	return list
}

func sign(d delivery, secret string) {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(d.body)
	d.header.Set("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac.Sum(nil)))
}

// job is a row of forge_jobs as far as it does not depend on clocks and chance.
type job struct {
	Forge, Entity, Repository, Workflow, Name, URL string
	JobID, RunID                                   int64
	Attempt                                        int
	Labels                                         []string
	State, Conclusion, Unserved, Preset            string
	RunnerID                                       *int64
	RunnerName                                     string
	RunnerState                                    *string
	Workspace                                      uuid.NullUUID
	Incarnation                                    *int32
	QueuedAt                                       time.Time
	StartedAt, CompletedAt                         *time.Time
}

func (w *world) jobs(where string) (list []job) {
	w.t.Helper()
	rows, err := w.store.Pool.Query(context.Background(), `SELECT j.forge_url, e.name, j.repository, j.workflow, j.name, j.url,
		j.job_id, j.run_id, j.attempt, j.labels, j.state::text, j.conclusion, j.unserved, coalesce(t.name, ''), j.runner_id,
		j.runner_name, j.runner_state::text, j.workspace_id, j.incarnation, j.queued_at, j.started_at, j.completed_at
		FROM forge_jobs j JOIN forge_entities e ON e.id = j.entity_id LEFT JOIN presets p ON p.id = j.preset_id
		LEFT JOIN templates t ON t.id = p.template_id WHERE `+where+` ORDER BY j.forge_url, j.job_id, j.attempt`)
	require.NoError(w.t, err)
	defer rows.Close()
	for rows.Next() {
		var j job
		require.NoError(w.t, rows.Scan(&j.Forge, &j.Entity, &j.Repository, &j.Workflow, &j.Name, &j.URL, &j.JobID, &j.RunID,
			&j.Attempt, &j.Labels, &j.State, &j.Conclusion, &j.Unserved, &j.Preset, &j.RunnerID, &j.RunnerName, &j.RunnerState,
			&j.Workspace, &j.Incarnation, &j.QueuedAt, &j.StartedAt, &j.CompletedAt))
		list = append(list, j)
	}
	require.NoError(w.t, rows.Err())
	return list
}

func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	require.NoError(w.t, w.store.Pool.QueryRow(context.Background(), sql, args...).Scan(&n))
	return n
}

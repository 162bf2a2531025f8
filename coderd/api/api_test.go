package api_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"cdr.dev/slog"
	"cdr.dev/slog/sloggers/slogtest"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/alerts"
	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/autosize"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/demand/entities"
	"github.com/prewarm-dev/prewarm/coderd/events"
	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/instance"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/reconcile"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/seal"
	"github.com/prewarm-dev/prewarm/coderd/states"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// site is the only one that the test server reaches.
const site = "here"

// bare is a provider that can do only what it must.
type bare struct{ provider.Provider }

func (bare) List(context.Context, uuid.UUID) ([]provider.Instance, error) { return nil, nil }

func (bare) Validate(json.RawMessage, map[string]string) []provider.Problem { return nil }

// roomy is one that can be entered: a command is echoed, with its input, and its status is the number of its words.
type roomy struct{ bare }

func (roomy) HostsAgent() {}

func (roomy) DriftEvery() time.Duration { return time.Hour }

func (roomy) Drift(context.Context, provider.Ref) ([]string, error) { return nil, nil }

func (roomy) TakesTokens() {}

func (roomy) Site() string { return site }

func (roomy) Exec(ctx context.Context, ref provider.Ref, req provider.ExecRequest) (int, error) {
	var input []byte
	var err error
	read := make(chan struct{})
	go func() { defer close(read); input, err = io.ReadAll(req.Stdin) }()
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-read:
	}
	if err != nil {
		return 0, err
	}
	_, _ = fmt.Fprintf(req.Stdout, "%s: %s %s", ref.Name, strings.Join(req.Command, " "), input)
	_, _ = fmt.Fprint(req.Stderr, req.Env["A"])
	return len(req.Command), nil
}

func (roomy) Logs(ctx context.Context, ref provider.Ref, follow bool) (io.ReadCloser, error) {
	line := strings.NewReader(fmt.Sprintf("%s follow=%t\n", ref.Name, follow))
	if ref.ProviderID == "endless" {
		return io.NopCloser(io.MultiReader(line, until{ctx})), nil
	}
	return io.NopCloser(line), nil
}

// until has nothing to read, and ends with its context.
type until struct{ context.Context }

func (u until) Read([]byte) (int, error) {
	<-u.Done()
	return 0, u.Err()
}

// world is a server on a database of its own.
type world struct {
	handler http.Handler
	t       *testing.T
	store   *database.Store
	url     string
	owner   auth.Identity
	token   map[string]string // a secret by user: owner, admin, member, other, auditor

	instances *instance.Service // of the server started last
	states    *states.Service   // as instances
	metrics   *prometheus.Registry
	stop      func() // what runs beside that server

	mu        sync.Mutex
	nudged    []uuid.UUID
	woken     int
	providers int // how often they changed

	installation uuid.UUID // where a test says whose the workspaces are
	unready      []string
}

const configuration = `
providers:
  - {name: roomy, kind: roomy}
  - {name: bare, kind: bare}
templates:
  - name: quickstart
    provider: roomy
    spec: {command: [x]}
    presets:
      - name: default
        prebuilds: {instances: 3, ttl: 8h}
  - name: plain
    provider: bare
    spec: {}
    presets: [{name: default}]
`

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldLogging(t, slogtest.Make(t, &slogtest.Options{IgnoreErrors: true}))
}

func newWorldLogging(t *testing.T, log slog.Logger) *world {
	t.Helper()
	ctx := context.Background()
	w := &world{t: t, store: dbtest.Open(t), token: map[string]string{}}
	_, _, err := auth.EnsureOwner(ctx, w.store, t.TempDir())
	require.NoError(t, err)
	registry := provider.NewRegistry(map[string]provider.Factory{
		"roomy": func(json.RawMessage) (provider.Provider, error) { return roomy{}, nil },
		"bare":  func(json.RawMessage) (provider.Provider, error) { return bare{}, nil },
	}, database.InTransaction)
	registry.Update([]provider.Row{{Name: "roomy", Kind: "roomy"}, {Name: "bare", Kind: "bare"}})
	writer := workspaces.New(w.store, uuid.New, "test")
	w.url = w.serve(api.Options{
		Claims: claim.New(claim.Options{
			Store: w.store, Writer: writer, Clock: quartz.NewReal(), Log: log, Registerer: prometheus.NewRegistry(),
			NewID: uuid.New, Hints: w.hints(),
		}),
		Workspaces: writer, Providers: registry, Log: log, LogRequests: true,
		Templates: &templates.Service{Store: w.store, NewProvider: registry.New},
	})
	w.owner = w.makeUsers()
	_, err = (&templates.Service{Store: w.store, NewProvider: registry.New}).Apply(ctx,
		templates.Request{By: w.owner, File: "test.yaml", Source: configuration})
	require.NoError(t, err)
	return w
}

// serve starts a server with what is missing in o filled in, as another replica would.
func (w *world) serve(o api.Options) string {
	w.t.Helper()
	o.Store, o.Version, o.Clock = w.store, "test", quartz.NewReal()
	o.Auth = auth.NewAuthenticator(w.store, o.Clock)
	w.instances = instance.New(instance.Options{
		Store: w.store, Writer: workspaces.New(w.store, uuid.New, "test"), Clock: o.Clock, Log: o.Log,
		Registerer: prometheus.NewRegistry(), URL: "http://test", CABundle: []byte("authorities"), Hints: w.hints(),
		Binaries: w.t.TempDir(),
	})
	o.Instances = w.instances
	w.states = &states.Service{Store: w.store, Keys: seal.Open(filepath.Join(w.t.TempDir(), "keys"), true, o.Clock)}
	o.States = w.states
	if o.Notifier == nil {
		o.Notifier = alerts.NewNotifier(alerts.NotifierOptions{
			Store: w.store, Clock: o.Clock, Log: o.Log, Registerer: prometheus.NewRegistry(), NewID: uuid.New,
		})
	}
	registry, ok := o.Providers.(*provider.Registry)
	if !ok {
		registry = provider.NewRegistry(nil, database.InTransaction)
	}
	o.Inventory = inventory.New(inventory.Options{ // only asked, never run
		Store: w.store, Writer: workspaces.New(w.store, uuid.New, "test"), Providers: registry, Clock: o.Clock, Log: o.Log,
		Registerer: prometheus.NewRegistry(), Replica: "test", Installation: o.Installation,
	})
	o.Sizes = autosize.New(autosize.Options{Store: w.store, Clock: o.Clock, Log: o.Log})
	o.Passes = reconcile.New(reconcile.Options{ // only asked, never run
		Store: w.store, Writer: workspaces.New(w.store, uuid.New, "test"), Clock: o.Clock, Log: o.Log,
		Registerer: prometheus.NewRegistry(), Replica: "test", Tick: time.Minute, Random: rand.Reader, NewID: uuid.New,
	})
	w.metrics = prometheus.NewRegistry()
	o.Events = events.New(events.Options{Store: w.store, Clock: o.Clock, Log: o.Log, Registerer: w.metrics})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { o.Events.Run(ctx) })
	w.stop = func() { cancel(); running.Wait() }
	w.t.Cleanup(w.stop)
	if o.Forges == nil {
		keys := seal.Open(filepath.Join(w.t.TempDir(), "keys"), true, o.Clock)
		o.Forges = &entities.Service{Store: w.store, Keys: keys, Directory: entities.NewDirectory(w.store, keys, nil, o.Clock)}
	}
	o.Hints = hints.Local(hints.Ears{
		Nudge:     w.nudge,
		Wake:      func() { w.mu.Lock(); defer w.mu.Unlock(); w.woken++ },
		Providers: func() { w.mu.Lock(); defer w.mu.Unlock(); w.providers++ },
	})
	o.Ready = func(context.Context) []string { w.mu.Lock(); defer w.mu.Unlock(); return w.unready }
	o.Metrics = promhttp.HandlerFor(prometheus.NewRegistry(), promhttp.HandlerOpts{})
	w.handler = api.New(o)
	return w.listen(w.handler)
}

func (w *world) listen(handler http.Handler) string {
	server := httptest.NewServer(handler)
	w.t.Cleanup(server.Close)
	return server.URL
}

// hints are those of a room, of which only nudges are looked at.
func (w *world) hints() *hints.Hints { return hints.Local(hints.Ears{Nudge: w.nudge}) }

func (w *world) nudge(templates ...uuid.UUID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.nudged = append(w.nudged, templates...)
}

func (w *world) makeUsers() auth.Identity {
	w.t.Helper()
	ctx := context.Background()
	user, err := viewsdb.New(w.store).UserByName(ctx, "owner")
	require.NoError(w.t, err)
	owner := auth.Identity{
		Principal:  auth.Principal{UserID: user.ID, User: "owner"},
		Membership: auth.Membership{OrganizationID: auth.DefaultOrganizationID, Organization: "default", Role: database.RoleOwner},
		Source:     "test",
	}
	for name, role := range map[string]database.Role{
		"owner": "", "admin": database.RoleTemplateAdmin, "member": database.RoleMember, "other": database.RoleMember,
		"auditor": database.RoleAuditor,
	} {
		_, secret, err := auth.CreateToken(ctx, w.store, owner, auth.TokenRequest{Name: name, User: name, Role: role})
		require.NoError(w.t, err)
		w.token[name] = secret.Reveal()
	}
	return owner
}

// as is a client of a user.
func (w *world) as(user string) *sdk.Client {
	w.t.Helper()
	client, err := sdk.New(w.url, w.token[user])
	require.NoError(w.t, err)
	return client
}

// workspace puts one into the database, in the state and of the preset default of the template.
func (w *world) workspace(template, state, user string) viewsdb.WorkspaceViewRow {
	w.t.Helper()
	ctx := context.Background()
	id, claimID := uuid.New(), uuid.New()
	_, err := w.store.Pool.Exec(ctx, `
		WITH ref AS (
		  SELECT p.*, t.active_version_id, t.provider, u.id AS user_id FROM presets p
		  JOIN templates t ON t.id = p.template_id, users u
		  WHERE t.name = $3 AND p.name = 'default' AND u.name = $5
		    AND t.deleted_at IS NULL
		), claim AS (
		  INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, workspace_id, incarnation,
		    created_at, bound_at)
		  SELECT $6, ref.organization_id, ref.id, ref.user_id, 'require', 'bound', 'hit', $1, 1, now(), now() FROM ref
		  WHERE $4 = 'claimed'
		)
		INSERT INTO workspaces (id, name, organization_id, template_id, template_version_id, preset_id, pool_key, provider,
		  site, parameters, state, owner_id, claim_id, provider_id, environment, created_at, state_at, ready_at)
		SELECT $1, $2, ref.organization_id, ref.template_id, ref.active_version_id, ref.id, ref.pool_key, ref.provider,
		  $7, '{}', $4::text::workspace_state, ref.user_id, CASE WHEN $4 = 'claimed' THEN $6::uuid END, 'pid',
		  '{"SECRET":"x"}', now(), now(), now()
		FROM ref`,
		id, "prebuild-"+id.String()[:13], template, state, user, claimID, map[bool]string{true: site}[template == "quickstart"])
	require.NoError(w.t, err)
	row, err := viewsdb.New(w.store).WorkspaceView(ctx, viewsdb.WorkspaceViewParams{
		OrganizationID: auth.DefaultOrganizationID, ID: uuid.NullUUID{UUID: id, Valid: true},
	})
	require.NoError(w.t, err)
	return row
}

// answer is what came back from a request.
type answer struct {
	method string
	status int
	header http.Header
	body   string
}

// problem is the answer as a problem document; it fails the test if it is none.
func (a answer) problem(t *testing.T) sdk.Error {
	t.Helper()
	require.Equal(t, "application/problem+json", a.header.Get("Content-Type"), a.body)
	if a.method == http.MethodHead {
		return sdk.Error{Status: a.status}
	}
	var p sdk.Error
	require.NoError(t, json.Unmarshal([]byte(a.body), &p))
	require.Equal(t, a.status, p.Status)
	require.NotEmpty(t, p.Title)
	return p
}

// call sends a request with a token as it is.
func (w *world) call(token, method, path, body string) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, w.url+path, strings.NewReader(body))
	require.NoError(w.t, err)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return w.send(req)
}

func (w *world) send(req *http.Request) answer {
	w.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(w.t, err)
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	require.NoError(w.t, err)
	return answer{req.Method, resp.StatusCode, resp.Header, string(bytes.TrimSpace(b))}
}

// dump is everything in the database but what a token's use leaves.
func (w *world) dump() string {
	w.t.Helper()
	var all strings.Builder
	for _, table := range []string{
		"users", "memberships", "providers", "templates", "template_versions", "presets", "workspaces", "jobs", "claims",
		"workspace_history", "pauses", "audit_log",
	} {
		var rows string
		require.NoError(w.t, w.store.Pool.QueryRow(context.Background(),
			"SELECT coalesce(string_agg(t::text, E'\\n' ORDER BY t::text), '') FROM "+table+" t").Scan(&rows))
		all.WriteString(table + ":\n" + rows + "\n")
	}
	return all.String()
}

const (
	eventually = time.Minute // that only a hang exceeds
	poll       = 20 * time.Millisecond
)

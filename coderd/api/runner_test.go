package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"cdr.dev/slog/sloggers/slogtest"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/seal"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database/lifecycledb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// oneForge registers everybody, and answers to a removal as it is told.
type oneForge struct {
	forge.Forge
	mu      sync.Mutex
	fail    error
	busy    bool
	old     bool // makes no configurations
	removed []int64

	files      bool // its configurations are made of files
	registered int
	ends       func() // with the removal of a runner
}

func (f *oneForge) set(fail error, busy bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail, f.busy = fail, busy
}

func (f *oneForge) Register(_ context.Context, r forge.NewRunner) (forge.Registration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.registered++
	if f.files {
		return forge.Registration{RunnerID: 5, JITConfig: jitOf(f.registered)}, f.fail
	}
	return forge.Registration{RunnerID: 5, JITConfig: "very secret", URL: "https://forge.example/" + r.Group}, f.fail
}

func (f *oneForge) JIT(context.Context) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.old, f.fail
}

func (f *oneForge) RegistrationToken(context.Context) (forge.Registration, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return forge.Registration{Token: "a secret token"}, f.fail
}

func (f *oneForge) RemoveRunner(_ context.Context, id int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.fail != nil:
		return f.fail
	case f.busy:
		return forge.ErrBusy
	}
	f.removed = append(f.removed, id)
	if f.ends != nil {
		f.ends()
	}
	return nil
}

// oneDirectory has one forge for all entities.
type oneDirectory struct{ *oneForge }

func (d oneDirectory) Forge(context.Context, uuid.UUID) (forge.Forge, error) { return d.oneForge, nil }

// withRunners makes the preset quickstart/default one of runners.
func withRunners(t *testing.T) (*world, *oneForge) {
	t.Helper()
	w := newWorld(t)
	log := slogtest.Make(t, &slogtest.Options{IgnoreErrors: true})
	f := &oneForge{}
	writer := workspaces.New(w.store, uuid.New, "test")
	w.url = w.serve(api.Options{
		Workspaces: writer, Log: log,
		Runners: runners.New(runners.Options{
			Store: w.store, Writer: writer, Directory: oneDirectory{f}, Clock: quartz.NewReal(), Log: log,
			Registerer: prometheus.NewRegistry(), Replica: "test", Hints: w.hints(),
			Keys: seal.Open(filepath.Join(t.TempDir(), "keys"), true, quartz.NewReal()),
		}),
	})
	w.exec(`WITH c AS (
		  INSERT INTO forge_credentials (id, organization_id, name, kind, url, auth, secret, sealed_by, created_at, updated_at)
		  SELECT gen_random_uuid(), id, 'c', 'github', 'https://forge.example', 'token', '', 'k', now(), now() FROM organizations
		  RETURNING id, organization_id
		), e AS (
		  INSERT INTO forge_entities (id, organization_id, name, scope, path, credential_id, webhook_secret, sealed_by,
		    created_at, updated_at)
		  SELECT gen_random_uuid(), organization_id, 'acme', 'organization', 'acme', id, '', 'k', now(), now() FROM c
		  RETURNING id
		)
		UPDATE presets p SET forge_entity_id = e.id, runner_labels = '{linux}', runner_group = 'g' FROM e, templates t
		WHERE t.id = p.template_id AND t.name = 'quickstart'`)
	return w, f
}

// runner is a workspace that is one, and has its configuration where it is past starting.
func (w *world) runner(state string) viewsdb.WorkspaceViewRow {
	w.t.Helper()
	row := w.workspace("quickstart", state, "prewarm")
	require.NoError(w.t, lifecycledb.New(w.store).ExpectRunner(context.Background(), lifecycledb.ExpectRunnerParams{WorkspaceID: row.ID, Incarnation: 1}))
	if state != "starting" && state != "provisioning" {
		w.exec(`UPDATE forge_runners SET asked_at = now(), handed_out_at = now(), registered_at = now(), status = 'idle',
			runner_id = 5 WHERE workspace_id = $1`, row.ID)
	}
	return row
}

const runnerConfiguration = "/api/v1/instance/runner-configuration"

// P5: the configuration is read once, with an instance token, and not before there is something to read.
func TestRunnerConfiguration(t *testing.T) {
	t.Parallel()
	w, f := withRunners(t)
	const bundle = "-----BEGIN CERTIFICATE-----\none\n-----END CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\nanother"
	w.exec("UPDATE forge_credentials SET ca_bundle = $1", bundle)
	token := w.instanceToken(w.runner("starting").ID, 1, 1)
	agent, err := sdk.New(w.url, token)
	require.NoError(t, err)
	m, err := agent.InstanceMetadata(t.Context())
	require.NoError(t, err)
	require.Equal(t, bundle, m.ForgeCABundle, "before there is a runner to trust it")
	f.set(errors.New("the forge is on fire"), false)
	a := w.call(token, http.MethodGet, runnerConfiguration, "")
	require.Equal(t, http.StatusBadGateway, a.status)
	require.Contains(t, a.problem(t).Detail, "on fire")
	require.Equal(t, "5", a.header.Get("Retry-After"))
	f.set(&forge.RateLimited{Until: time.Now().Add(90 * time.Second)}, false)
	a = w.call(token, http.MethodGet, runnerConfiguration, "")
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	wait, err := strconv.Atoi(a.header.Get("Retry-After"))
	require.NoError(t, err)
	require.InDelta(t, 90, wait, 30)
	f.set(nil, false)
	a = w.call(token, http.MethodGet, runnerConfiguration, "")
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.Contains(t, a.problem(t).Detail, "the forge is left alone until ")
	require.NotEmpty(t, a.header.Get("Retry-After"))

	w.exec("UPDATE forge_status SET runners_wait_until = NULL")
	a = w.call(token, http.MethodGet, runnerConfiguration, "")
	require.Equal(t, http.StatusOK, a.status, a.body)
	var c sdk.RunnerConfiguration
	require.NoError(t, json.Unmarshal([]byte(a.body), &c))
	require.Equal(t, "very secret", c.JITConfig)
	require.Equal(t, "https://forge.example/g", c.URL)
	require.Equal(t, []string{"linux"}, c.Labels)
	require.True(t, c.Ephemeral)
	require.Equal(t, bundle, c.CABundle)
	require.Equal(t, "no-store", a.header.Get("Cache-Control"))
	a = w.call(token, http.MethodGet, runnerConfiguration, "")
	require.Equal(t, http.StatusConflict, a.status)
	require.Contains(t, a.problem(t).Detail, "is read once")
	require.NotContains(t, w.dump(), "very secret")

	early := w.instanceToken(w.runner("provisioning").ID, 1, 1)
	a = w.call(early, http.MethodGet, runnerConfiguration, "")
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.NotEmpty(t, a.header.Get("Retry-After"))
	other := w.instanceToken(w.workspace("plain", "starting", "prewarm").ID, 1, 1)
	require.Equal(t, http.StatusNotFound, w.call(other, http.MethodGet, runnerConfiguration, "").status)
	require.Equal(t, http.StatusForbidden, w.call(w.token["owner"], http.MethodGet, runnerConfiguration, "").status)
}

// What a workspace says of its runner: in our words, and in GARM's.
func TestRunnerReports(t *testing.T) {
	t.Parallel()
	w, _ := withRunners(t)
	status := func(id uuid.UUID) (s string) {
		require.NoError(t, w.store.Pool.QueryRow(context.Background(), `SELECT concat_ws(' ', status, finished_at IS NOT NULL)
			FROM forge_runners WHERE workspace_id = $1`, id).Scan(&s))
		return s
	}
	row := w.runner("ready")
	token := w.instanceToken(row.ID, 1, 1)
	report := func(path, body string) int {
		return w.call(token, http.MethodPost, "/api/v1/instance/"+path, body).status
	}
	require.Equal(t, http.StatusOK, report("status", `{"status":"active","agent_id":5}`))
	require.Equal(t, "active f", status(row.ID))
	require.Equal(t, http.StatusNoContent, report("runner", `{"status":"idle"}`))
	require.Equal(t, "idle f", status(row.ID))
	require.Equal(t, http.StatusNoContent, report("runner", `{"status":"finished","message":"ended with exit status 0"}`))
	require.Equal(t, "idle t", status(row.ID))
	require.Equal(t, http.StatusUnprocessableEntity, report("runner", `{"status":"asleep"}`))
	token = w.instanceToken(w.workspace("plain", "starting", "prewarm").ID, 1, 1)
	require.Equal(t, http.StatusNotFound, report("runner", `{"status":"idle"}`))
	require.Equal(t, http.StatusOK, report("status", `{"status":"idle"}`), "GARM's word of what is no runner")
}

// P7: a person's deletion asks the forge at once. Busy is a veto, whatever the flags; an error stops it, but not an owner.
func TestDeleteOfRunner(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w, f := withRunners(t)
	row := w.runner("ready")
	before := w.dump()
	f.set(nil, true)
	for _, force := range []bool{false, true} {
		_, err := w.as("owner").DeleteWorkspace(ctx, row.Name, force)
		require.Equal(t, http.StatusConflict, sdk.StatusOf(err), err)
		require.ErrorContains(t, err, "runner "+row.Name+" has a job: busy: the forge says a job runs")
	}
	f.set(errors.New("500 Internal Server Error"), false)
	for _, force := range []bool{false, true} {
		_, err := w.as("owner").DeleteWorkspace(ctx, row.Name, force)
		require.Equal(t, http.StatusBadGateway, sdk.StatusOf(err), err)
		require.ErrorContains(t, err, "nothing was deleted")
		require.ErrorContains(t, err, "--abandon-runner")
	}
	f.set(&forge.RateLimited{Until: time.Now().Add(time.Hour)}, false)
	_, err := w.as("admin").DeleteWorkspace(ctx, row.Name, false)
	require.Equal(t, http.StatusServiceUnavailable, sdk.StatusOf(err), err)
	require.Greater(t, sdk.RetryAfter(err), time.Minute)
	_, err = w.as("admin").DeleteAbandoningRunner(ctx, row.Name, false)
	require.Equal(t, http.StatusForbidden, sdk.StatusOf(err), err)
	require.Equal(t, before, w.dump(), "nothing was done")

	w.exec("UPDATE forge_runners SET status = 'active'")
	_, err = w.as("owner").DeleteAbandoningRunner(ctx, row.Name, true)
	require.Equal(t, http.StatusConflict, sdk.StatusOf(err), "busy, as far as is known: %v", err)
	require.Equal(t, before, w.dump(), "nothing was done")
	w.exec("UPDATE forge_runners SET status = 'idle'")
	deleted, err := w.as("owner").DeleteAbandoningRunner(ctx, row.Name, false)
	require.NoError(t, err)
	require.Equal(t, "draining", deleted.State)
	deleted, err = w.as("owner").DeleteAbandoningRunner(ctx, row.Name, false)
	require.NoError(t, err, "of what goes already, and waits for the forge")
	require.Equal(t, "draining", deleted.State)
	audit, err := w.as("owner").Audit(ctx, sdk.AuditFilter{Action: "runner.abandon"})
	require.NoError(t, err)
	require.Len(t, audit.Entries, 2)
	require.Equal(t, "127.0.0.1", audit.Entries[0].Source)

	f.set(nil, false)
	w.exec("UPDATE forge_status SET runners_wait_until = NULL")
	other := w.runner("ready")
	deleted, err = w.as("admin").DeleteWorkspace(ctx, other.Name, false)
	require.NoError(t, err)
	require.Equal(t, "draining", deleted.State)
	require.Equal(t, []int64{5}, f.removed)
	_, err = w.as("owner").DeleteAbandoningRunner(ctx, w.workspace("plain", "ready", "prewarm").Name, false)
	require.Equal(t, http.StatusConflict, sdk.StatusOf(err), err)
}

// A runner that is unregistered ends, and its workspace is drained for that, perhaps before the deletion goes on: it is
// deleted, as it was asked for, and on record as somebody's act.
func TestDeleteOfRunner_whichEndsAtOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w, f := withRunners(t)
	row := w.runner("ready")
	f.ends = func() {
		_, err := workspaces.New(w.store, uuid.New, "test").Drain(ctx, w.store, row.ID, 1, "its runner has ended")
		assert.NoError(t, err)
	}
	deleted, err := w.as("admin").DeleteWorkspace(ctx, row.Name, false)
	require.NoError(t, err)
	require.Equal(t, "draining", deleted.State)
	audit, err := w.as("owner").Audit(ctx, sdk.AuditFilter{Action: "workspace.delete"})
	require.NoError(t, err)
	require.Len(t, audit.Entries, 1)
	_, err = w.as("admin").DeleteWorkspace(ctx, row.Name, false)
	require.Equal(t, http.StatusConflict, sdk.StatusOf(err), "it goes already: %v", err)
}

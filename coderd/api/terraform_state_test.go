package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/states"
)

// terraformRun is a run for a workspace that is being created, in a directory with a module.
type terraformRun struct {
	*world
	job uuid.UUID
	dir string
	states.Credentials
}

// terraformRun leases the job of a new workspace.
func (w *world) terraformRun(module string) *terraformRun {
	w.t.Helper()
	r := &terraformRun{world: w, job: uuid.New(), dir: w.t.TempDir()}
	ws := w.workspace("quickstart", "provisioning", "prewarm")
	_, err := w.store.Pool.Exec(w.t.Context(), `INSERT INTO jobs
		(id, workspace_id, incarnation, kind, provider, state, attempt, due_at, created_at)
		VALUES ($1, $2, 1, 'create', 'roomy', 'running', 0, now(), now())`, r.job, ws.ID)
	require.NoError(w.t, err)
	require.NoError(w.t, os.WriteFile(filepath.Join(r.dir, "main.tf"), []byte(module+"\nterraform {\n  backend \"http\" {}\n}\n"), 0o600))
	return r.next()
}

// next is the run of the next attempt, in the same directory.
func (r *terraformRun) next() *terraformRun {
	r.t.Helper()
	next := *r
	var attempt int32
	require.NoError(r.t, r.store.Pool.QueryRow(r.t.Context(),
		"UPDATE jobs SET attempt = attempt + 1 WHERE id = $1 RETURNING attempt", r.job).Scan(&attempt))
	var err error
	next.Credentials, err = r.states.Begin(r.t.Context(), r.job, attempt)
	require.NoError(r.t, err)
	return &next
}

// command is Terraform with this run's backend.
func (r *terraformRun) command(args ...string) *exec.Cmd {
	r.t.Helper()
	path, err := exec.LookPath("terraform")
	if err != nil {
		if os.Getenv("CI") != "" {
			r.t.Fatal("terraform is not there: install 1.6 or newer from developer.hashicorp.com/terraform/install")
		}
		r.t.Skip("terraform is not there: install 1.6 or newer from developer.hashicorp.com/terraform/install")
	}
	cmd := exec.CommandContext(r.t.Context(), path, args...)
	cmd.Dir = r.dir
	state := r.url + "/api/v1/terraform/state"
	cmd.Env = []string{
		"HOME=" + r.dir, "PATH=" + os.Getenv("PATH"), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_INPUT=0", "TF_CLI_ARGS=-no-color",
		"TF_HTTP_ADDRESS=" + state, "TF_HTTP_USERNAME=" + r.WorkspaceID.String(), "TF_HTTP_PASSWORD=" + r.Token, "TF_HTTP_RETRY_MAX=0",
		"TF_HTTP_LOCK_ADDRESS=" + state + "/lock", "TF_HTTP_LOCK_METHOD=POST",
		"TF_HTTP_UNLOCK_ADDRESS=" + state + "/lock", "TF_HTTP_UNLOCK_METHOD=DELETE",
	}
	return cmd
}

// terraform runs it to its end, and returns all that it wrote.
func (r *terraformRun) terraform(args ...string) (string, error) {
	r.t.Helper()
	out, err := r.command(args...).CombinedOutput()
	return string(out), err
}

func (r *terraformRun) does(args ...string) string {
	r.t.Helper()
	out, err := r.terraform(args...)
	require.NoError(r.t, err, out)
	return out
}

// ask sends a request of the backend's with any credentials.
func (r *terraformRun) ask(user, password, method, path, body string) answer {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+"/api/v1/terraform"+path, strings.NewReader(body))
	require.NoError(r.t, err)
	req.SetBasicAuth(user, password)
	return r.send(req)
}

func (r *terraformRun) request(method, path, body string) answer {
	r.t.Helper()
	return r.ask(r.WorkspaceID.String(), r.Token, method, path, body)
}

// resources are those of the newest state.
func (r *terraformRun) resources() int {
	r.t.Helper()
	a := r.request(http.MethodGet, "/state", "")
	require.Equal(r.t, http.StatusOK, a.status, a.body)
	var state struct{ Resources []any }
	require.NoError(r.t, json.Unmarshal([]byte(a.body), &state))
	return len(state.Resources)
}

// Terraform keeps its state here, from the first apply to the destroy. What the database has of it is sealed.
func TestTerraformState(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.terraformRun(`
		variable "secret" {}
		resource "terraform_data" "one" { input = var.secret }
		output "one" { value = terraform_data.one.output }`)
	require.Equal(t, http.StatusNoContent, r.request(http.MethodGet, "/state", "").status)
	r.does("init")
	r.does("apply", "-auto-approve", "-var=secret=plain-text")
	require.Contains(t, r.does("output", "-raw", "one"), "plain-text")
	require.Equal(t, 1, r.resources())
	again := r.next()
	require.Contains(t, again.does("apply", "-auto-approve", "-var=secret=plain-text"), "0 added, 0 changed, 0 destroyed")
	again.does("apply", "-auto-approve", "-var=secret=changed")
	again.does("destroy", "-auto-approve", "-var=secret=changed")
	require.Zero(t, again.resources())

	var versions, readable int
	require.NoError(t, w.store.Pool.QueryRow(t.Context(), `SELECT count(*), count(*) FILTER (
		WHERE position('plain-text'::bytea IN sealed) + position('terraform'::bytea IN sealed) > 0) FROM terraform_states`).Scan(&versions, &readable))
	require.Greater(t, versions, 2)
	require.Zero(t, readable)
	var storage string
	require.NoError(t, w.store.Pool.QueryRow(t.Context(), `SELECT attstorage::text FROM pg_attribute
		WHERE attrelid = 'terraform_states'::regclass AND attname = 'sealed'`).Scan(&storage))
	require.Equal(t, "e", storage, "external: no page of the table has a part of a state")
}

// A second process of the run finds the state locked, and by which lock. What a run that was killed has locked is free for the next.
func TestTerraformState_lock(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.terraformRun(`resource "terraform_data" "one" {}`)
	r.does("init")
	const holder = `{"ID":"11111111-2222-3333-4444-555555555555","Operation":"OperationTypeApply","Who":"somebody@somewhere",` +
		`"Version":"1.11.4","Created":"2026-01-01T00:00:00Z","Path":"","Info":""}`
	require.Equal(t, http.StatusOK, r.request(http.MethodPost, "/state/lock", holder).status)
	out, err := r.terraform("apply", "-auto-approve")
	require.Error(t, err)
	require.Contains(t, out, "already locked:\nID=11111111-2222-3333-4444-555555555555")
	require.Equal(t, http.StatusNoContent, r.request(http.MethodGet, "/state", "").status)
	r.next().does("apply", "-auto-approve")
}

// A worker that woke up late applies to the end, and what it made is in no state: its write is refused, and the next
// attempt goes on from what was stored before.
func TestTerraformState_lateWriter(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.terraformRun(`
		variable "wait" { default = false }
		resource "terraform_data" "one" {}
		resource "terraform_data" "two" {
		  count = var.wait ? 1 : 0
		  provisioner "local-exec" { command = "touch begun; while [ ! -e go ]; do sleep 0.05; done" }
		}`)
	r.does("init")
	r.does("apply", "-auto-approve")
	late := r.command("apply", "-auto-approve", "-var=wait=true")
	var out bytes.Buffer
	late.Stdout, late.Stderr = &out, &out
	require.NoError(t, late.Start())
	t.Cleanup(func() { _ = late.Process.Kill(); _ = late.Wait() })
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(r.dir, "begun")); return err == nil }, eventually, poll)
	next := r.next()
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "go"), nil, 0o600))
	require.Error(t, late.Wait(), out.String())
	require.Contains(t, out.String(), "Failed to save state")
	require.Equal(t, http.StatusUnauthorized, r.request(http.MethodGet, "/state", "").status)
	require.Equal(t, 1, next.resources())
	next.does("destroy", "-auto-approve")
	require.Zero(t, next.resources())
}

// A state of 20 MB is written and read by Terraform itself.
func TestTerraformState_large(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.terraformRun(`
		output "large" {
		  value     = file("large")
		  sensitive = true
		}`)
	large := strings.Repeat("0123456789abcdef", 20<<20/16)
	require.NoError(t, os.WriteFile(filepath.Join(r.dir, "large"), []byte(large), 0o600))
	r.does("init")
	r.does("apply", "-auto-approve")
	require.NoError(t, os.Remove(filepath.Join(r.dir, "large")))
	require.Len(t, r.next().does("output", "-raw", "large"), len(large))
	var size, table int
	require.NoError(t, w.store.Pool.QueryRow(t.Context(), `SELECT max(size), pg_relation_size('terraform_states') FROM terraform_states`).Scan(&size, &table))
	require.Greater(t, size, 20<<20)
	require.LessOrEqual(t, table, 8192, "the state is in no page of the table")
}

// A state that has come as a whole is stored although its sender was killed before it had the answer.
func TestTerraformState_senderGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r := w.terraformRun("")
	require.Equal(t, http.StatusOK, r.request(http.MethodPost, "/state/lock", `{"ID":"x"}`).status)
	tx, err := w.store.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = tx.Exec(t.Context(), "SELECT FROM terraform_runs FOR UPDATE") // so that the write takes a while
	require.NoError(t, err)
	ctx, kill := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+"/api/v1/terraform/state?ID=x", strings.NewReader(`{"lineage":"l","serial":1}`))
	require.NoError(t, err)
	req.SetBasicAuth(r.WorkspaceID.String(), r.Token)
	killed := make(chan error, 1)
	go func() { _, err := http.DefaultClient.Do(req); killed <- err }()
	require.Eventually(t, func() bool {
		var waits bool
		err := w.store.Pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%HoldTerraformRun%')`).Scan(&waits)
		return err == nil && waits
	}, eventually, poll)
	kill()
	require.ErrorIs(t, <-killed, context.Canceled)
	require.NoError(t, tx.Commit(t.Context()))
	require.Eventually(t, func() bool { return r.request(http.MethodGet, "/state", "").status == http.StatusOK }, eventually, poll)
}

// A token is good for one run of one workspace, and nothing else; what is no state, or comes without the lock, is refused.
func TestTerraformState_strangers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	r, other := w.terraformRun(""), w.terraformRun("")
	id := r.WorkspaceID.String()
	for name, c := range map[string][2]string{
		"another workspace's token": {id, other.Token}, "another workspace": {other.WorkspaceID.String(), r.Token},
		"none": {id, ""}, "wrong": {id, r.Token + "x"}, "no workspace": {"", r.Token}, "no such workspace": {uuid.NewString(), r.Token},
		"a user's": {id, w.token["owner"]},
	} {
		for _, path := range []string{"/state", "/state/lock"} {
			a := r.ask(c[0], c[1], http.MethodPost, path, `{"ID":"x","lineage":"l","serial":1}`)
			require.Equal(t, http.StatusUnauthorized, a.status, name)
			a.problem(t)
		}
		require.Equal(t, http.StatusUnauthorized, r.ask(c[0], c[1], http.MethodGet, "/state", "").status, name)
	}
	for path, want := range map[string]int{"/api/v1/presets": 401, "/api/v1/instance/metadata": 401} {
		require.Equal(t, want, w.call(r.Token, http.MethodGet, path, "").status, "the token of a run is nothing else's: %s", path)
	}

	const state = `{"lineage":"l","serial":1}`
	require.Equal(t, http.StatusConflict, r.request(http.MethodPost, "/state", state).status, "not locked")
	require.Equal(t, http.StatusUnprocessableEntity, r.request(http.MethodPost, "/state/lock", `{}`).status)
	require.Equal(t, http.StatusOK, r.request(http.MethodPost, "/state/lock", `{"ID":"x"}`).status)
	require.Equal(t, http.StatusConflict, r.request(http.MethodPost, "/state?ID=y", state).status, "another's lock")
	require.Equal(t, http.StatusUnprocessableEntity, r.request(http.MethodPost, "/state?ID=x", `{}`).status)
	a := r.request(http.MethodPost, "/state?ID=x", strings.Repeat(" ", states.MaxBytes+1))
	require.Equal(t, http.StatusRequestEntityTooLarge, a.status, a.body)
	require.Equal(t, http.StatusRequestEntityTooLarge, r.request(http.MethodPost, "/state/lock", fmt.Sprintf(`{"ID":"%070000d"}`, 1)).status)
	require.Equal(t, http.StatusLocked, r.request(http.MethodDelete, "/state/lock", `{"ID":"y"}`).status)
	require.Equal(t, http.StatusMethodNotAllowed, r.request(http.MethodDelete, "/state", "").status, "a state goes with its workspace")
	require.Equal(t, http.StatusOK, r.request(http.MethodPost, "/state?ID=x", state).status)
	require.Equal(t, http.StatusOK, r.request(http.MethodDelete, "/state/lock", `{"ID":"x"}`).status)

	_, err := w.store.Pool.Exec(context.Background(), "UPDATE jobs SET state = 'done', finished_at = now() WHERE id = $1", r.job)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, r.request(http.MethodGet, "/state", "").status, "its job is over")
	require.Equal(t, http.StatusNoContent, other.request(http.MethodGet, "/state", "").status)
}

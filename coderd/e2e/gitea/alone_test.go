package gitea_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const workflow = `
on: push
jobs:
  build:
    runs-on: [self-hosted, linux]
    steps:
      - run: echo "built by $RUNNER_NAME"
      - run: sleep 4
  deploy:
    needs: build
    runs-on: [self-hosted, linux]
    steps:
      - run: echo deployed
      - run: sleep 4
`

const secret = "a secret that only the two of them know"

// delivery is a webhook as it came.
type delivery struct {
	header http.Header
	body   []byte
}

// deliveries collects webhooks.
type deliveries struct {
	mu  sync.Mutex
	all []delivery
}

func (d *deliveries) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, delivery{r.Header.Clone(), body})
}

// of are those of an event and an action, in the order in which they came.
func (d *deliveries) of(event, action string) (found []delivery) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.all {
		var said struct {
			Action string `json:"action"`
		}
		if one.header.Get("X-Gitea-Event") == event && json.Unmarshal(one.body, &said) == nil && said.Action == action {
			found = append(found, one)
		}
	}
	return found
}

// Gitea and its runner work here without Prewarm, and what they send and answer is what testdata has.
func TestGitea_alone(t *testing.T) {
	t.Parallel()
	f := startForge(t)
	f.repository(t, "shop")
	got := &deliveries{}
	receiver := httptest.NewServer(got)
	t.Cleanup(receiver.Close)
	f.record(t, "hook_created", f.api(t, http.MethodPost, "/repos/acme/shop/hooks", map[string]any{
		"type": "gitea", "active": true, "events": []string{"workflow_job"},
		"config": map[string]string{"url": receiver.URL + "/webhooks/acme", "content_type": "json", "secret": secret},
	}))
	f.record(t, "hooks", f.api(t, http.MethodGet, "/repos/acme/shop/hooks", nil))
	f.push(t, "shop", ".gitea/workflows/build.yaml", workflow)
	until(t, "the job is told of", func() bool { return len(got.of("workflow_job", "queued")) > 0 })
	f.record(t, "webhook_queued", got.of("workflow_job", "queued")[0].body)
	f.record(t, "jobs_queued", f.api(t, http.MethodGet, "/repos/acme/shop/actions/jobs?status=queued", nil))
	f.record(t, "runners_none", f.api(t, http.MethodGet, "/repos/acme/shop/actions/runners", nil))

	until(t, "the other is told of", func() bool { return len(got.of("workflow_job", "waiting")) > 0 })
	f.record(t, "webhook_waiting", got.of("workflow_job", "waiting")[0].body)

	name := "prebuild-by-hand"
	daemon := f.register(t, "shop", name)
	listed := f.api(t, http.MethodGet, "/repos/acme/shop/actions/runners", nil)
	f.record(t, "runners_registered", listed)
	require.Contains(t, string(listed), name)
	id := f.runners(t, "shop")[0].ID
	f.record(t, "runner", f.api(t, http.MethodGet, fmt.Sprintf("/repos/acme/shop/actions/runners/%d", id), nil))

	ended := run(t, daemon, filepath.Join(t.TempDir(), "runner.log"))
	until(t, "the job is running", func() bool { return len(got.of("workflow_job", "in_progress")) > 0 })
	f.record(t, "webhook_in_progress", got.of("workflow_job", "in_progress")[0].body)
	var running []byte
	until(t, "its first step is over", func() bool { // the runner reports steps every second or so
		running = f.api(t, http.MethodGet, "/repos/acme/shop/actions/jobs?status=in_progress", nil)
		return fields(t, running)[".jobs[].steps[].conclusion"]
	})
	f.record(t, "jobs_in_progress", running)
	f.record(t, "runners_busy", f.api(t, http.MethodGet, "/repos/acme/shop/actions/runners", nil))
	until(t, "the job has ended", func() bool { return len(got.of("workflow_job", "completed")) > 0 })
	f.record(t, "webhook_completed", got.of("workflow_job", "completed")[0].body)
	job := f.job(t, "shop", "build")
	f.record(t, "job_completed", f.api(t, http.MethodGet, fmt.Sprintf("/repos/acme/shop/actions/jobs/%d", job.ID), nil))
	select {
	case <-ended: // an ephemeral runner takes one job
	case <-time.After(patience):
		require.FailNow(t, "the runner did not end")
	}
	until(t, "the runner is not known any more", func() bool { return len(f.runners(t, "shop")) == 0 })
	require.Equal(t, "success", job.Conclusion)
	require.Equal(t, name, job.RunnerName)
	status, answer := f.ask(t, http.MethodDelete, fmt.Sprintf("/repos/acme/shop/actions/runners/%d", id), nil)
	require.Equal(t, http.StatusNotFound, status, "a runner that is gone: %s", answer)
	run(t, f.register(t, "shop", "prebuild-deploys"), filepath.Join(t.TempDir(), "deploys.log"))
	until(t, "the other has ended", func() bool { return len(got.of("workflow_job", "completed")) > 1 })
	until(t, "its runner is not known any more", func() bool { return len(f.runners(t, "shop")) == 0 })
	f.again(t, got)
	for _, d := range got.all {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(d.body)
		require.Equal(t, hex.EncodeToString(mac.Sum(nil)), d.header.Get("X-Gitea-Signature"))
		require.Equal(t, "sha256="+d.header.Get("X-Gitea-Signature"), d.header.Get("X-Hub-Signature-256"))
		require.NotEmpty(t, d.header.Get("X-Gitea-Delivery"))
	}
	f.record(t, "webhook_headers", headers(t, got.of("workflow_job", "queued")[0].header))
}

// again runs the job once more: while it is queued its attempt is still that of the run before, and a runner that is at it can
// be deleted. One that is disabled can be deleted without taking a job in that moment.
func (f *forge) again(t *testing.T, got *deliveries) {
	t.Helper()
	before := len(got.of("workflow_job", "queued"))
	f.api(t, http.MethodPost, fmt.Sprintf("/repos/acme/shop/actions/runs/1/jobs/%d/rerun", f.job(t, "shop", "build").ID), nil)
	until(t, "the second run is told of", func() bool { return len(got.of("workflow_job", "queued")) > before })
	f.record(t, "webhook_queued_again", got.of("workflow_job", "queued")[before].body)
	require.EqualValues(t, 1, attempt(t, got.of("workflow_job", "queued")[before]))

	daemon := f.register(t, "shop", "prebuild-again")
	path := fmt.Sprintf("/repos/acme/shop/actions/runners/%d", f.runners(t, "shop")[0].ID)
	f.record(t, "runner_disabled", f.api(t, http.MethodPatch, path, map[string]bool{"disabled": true}))
	f.api(t, http.MethodPatch, path, map[string]bool{"disabled": false})
	run(t, daemon, filepath.Join(t.TempDir(), "again.log"))
	until(t, "the second run has begun", func() bool { return len(got.of("workflow_job", "in_progress")) > 2 })
	f.record(t, "webhook_in_progress_again", got.of("workflow_job", "in_progress")[2].body)
	require.EqualValues(t, 2, attempt(t, got.of("workflow_job", "in_progress")[2]))
	status, answer := f.ask(t, http.MethodDelete, path, nil)
	require.Equal(t, http.StatusNoContent, status, "a runner that is at a job: %s", answer)
}

func attempt(t *testing.T, d delivery) int64 {
	t.Helper()
	var said struct {
		Job struct {
			Attempt int64 `json:"run_attempt"`
		} `json:"workflow_job"`
	}
	require.NoError(t, json.Unmarshal(d.body, &said))
	return said.Job.Attempt
}

// register makes an ephemeral runner known, as a person would, and returns the command that runs it.
func (f *forge) register(t *testing.T, repository, name string) (daemon *exec.Cmd) {
	t.Helper()
	token := into[struct {
		Token string `json:"token"`
	}](t, f, http.MethodPost, "/repos/acme/"+repository+"/actions/runners/registration-token", nil).Token
	work := t.TempDir()
	register := exec.Command(binary("gitea-runner"), "register", "--no-interactive", "--ephemeral", "--instance", f.url,
		"--token", token, "--name", name, "--labels", "self-hosted:host,linux:host")
	register.Dir = work
	out, err := register.CombinedOutput()
	require.NoError(t, err, "%s", out)
	daemon = exec.Command(binary("gitea-runner"), "daemon")
	daemon.Dir = work
	return daemon
}

func headers(t *testing.T, h http.Header) []byte {
	t.Helper()
	named := map[string]string{}
	for name := range h {
		if strings.HasPrefix(name, "X-") || name == "Content-Type" || name == "User-Agent" {
			named[name] = h.Get(name)
		}
	}
	encoded, err := json.Marshal(named)
	require.NoError(t, err)
	return encoded
}

func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	require.Eventually(t, holds, patience, 200*time.Millisecond, "never: %s", what)
}

// What differs from run to run, and is of no matter.
var (
	address = regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	hash    = regexp.MustCompile(`\b[0-9a-f]{40}\b`)
	digest  = regexp.MustCompile(`\b[0-9a-f]{64}\b`)
	guid    = regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`)
	instant = regexp.MustCompile(`"(20[2-9]\d)-[^"]*T[^"]*"`)
)

// record compares a JSON answer's fields with those in testdata: the names of all of them, and what does not differ from run
// to run. With -update it writes them.
func (f *forge) record(t *testing.T, name string, answer []byte) {
	t.Helper()
	var pretty bytes.Buffer
	require.NoError(t, json.Indent(&pretty, answer, "", "  "), "%s", answer)
	text := pretty.String()
	text = strings.ReplaceAll(text, f.url, "https://gitea.example.com")
	text = address.ReplaceAllString(text, "https://prewarm.example.com")
	text = digest.ReplaceAllString(text, strings.Repeat("d", 64))
	text = hash.ReplaceAllString(text, strings.Repeat("c", 40))
	text = guid.ReplaceAllString(text, "5c4f1a2b-0000-4000-8000-000000000000")
	text = instant.ReplaceAllString(text, `"2026-01-02T03:04:05Z"`) + "\n"
	file := filepath.Join("testdata", name+".json")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
		return
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err, "record it with -update")
	require.Equal(t, fields(t, want), fields(t, []byte(text)), name)
}

// fields are the names of all fields in a document, with their paths.
func fields(t *testing.T, document []byte) map[string]bool {
	t.Helper()
	var value any
	require.NoError(t, json.Unmarshal(document, &value))
	found := map[string]bool{}
	var walk func(path string, value any)
	walk = func(path string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for name, inner := range v {
				found[path+"."+name] = true
				walk(path+"."+name, inner)
			}
		case []any:
			for _, inner := range v {
				walk(path+"[]", inner)
			}
		}
	}
	walk("", value)
	return found
}

package terraform_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/prometheus/procfs"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/terraform"
	"github.com/prewarm-dev/prewarm/coderd/seal"
	"github.com/prewarm-dev/prewarm/coderd/states"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

const eventually, poll = time.Minute, 20 * time.Millisecond

// world is a server with a job that a worker has leased, and a runner of modules.
type world struct {
	t      *testing.T
	states *states.Service
	url    string
	job    uuid.UUID
	root   string
	*terraform.Runner
}

func newWorld(t *testing.T) *world {
	t.Helper()
	path, err := exec.LookPath(cmp.Or(os.Getenv("PREWARM_TERRAFORM"), "terraform")) // or OpenTofu: `make tofu-test`
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("terraform is not there: install 1.6 or newer from developer.hashicorp.com/terraform/install")
		}
		t.Skip("terraform is not there: install 1.6 or newer from developer.hashicorp.com/terraform/install")
	}
	clock := quartz.NewReal()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1, Each: 1})
	w := &world{t: t, job: uuid.New()}
	w.states = &states.Service{Store: store, Keys: seal.Open(filepath.Join(t.TempDir(), "keys"), true, clock)}
	server := httptest.NewServer(api.New(api.Options{
		Store: store, Auth: auth.NewAuthenticator(store, clock), States: w.states, Clock: clock, Log: slog.Make(),
	}))
	t.Cleanup(server.Close)
	w.url = server.URL + "/api/v1/terraform/state"
	_, err = store.Pool.Exec(t.Context(), `INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, state, attempt, due_at, created_at)
		SELECT $1, id, incarnation, 'create', 'sim', 'running', 1, now(), now() FROM workspaces`, w.job)
	require.NoError(t, err)
	w.root, err = os.MkdirTemp("", "prewarm-terraform-") // what t.TempDir makes no other user can enter
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(w.root)) })
	require.NoError(t, os.Chmod(w.root, 0o711))
	w.Runner, err = terraform.New(t.Context(), terraform.Options{
		Program: path, Root: w.root, Clock: clock, AllowServerIdentity: true,
		Memory: terraform.Memory{Total: 64 << 30},
	}) // as many runs at a time as a test has
	require.NoError(t, err)
	return w
}

// open begins a run of a module of one file.
func (w *world) open(main string, variables map[string]string) *terraform.Run {
	w.t.Helper()
	c, err := w.states.Begin(w.t.Context(), w.job, 1)
	require.NoError(w.t, err)
	run, err := w.Open(terraform.Module{Files: map[string]string{"main.tf": main}, Variables: variables},
		terraform.Backend{URL: w.url, WorkspaceID: c.WorkspaceID.String(), Token: c.Token})
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, run.Close()) })
	return run
}

// apply plans and applies.
func apply(ctx context.Context, run *terraform.Run, output io.Writer, secrets ...string) error {
	if _, err := run.Plan(ctx, output, secrets...); err != nil {
		return err
	}
	return run.Apply(ctx, output, secrets...)
}

// resources are those of the newest state, by their names.
func (w *world) resources() []string {
	w.t.Helper()
	c, err := w.states.Begin(w.t.Context(), w.job, 1)
	require.NoError(w.t, err)
	return w.resourcesOf(c)
}

// resourcesOf are those of the state that a run finds.
func (w *world) resourcesOf(c states.Credentials) []string {
	w.t.Helper()
	run, err := w.states.Authenticate(w.t.Context(), c.WorkspaceID.String(), c.Token)
	require.NoError(w.t, err)
	raw, _, err := w.states.Read(w.t.Context(), run)
	if errors.Is(err, states.ErrNone) {
		return nil
	}
	require.NoError(w.t, err)
	var state struct{ Resources []struct{ Name string } }
	require.NoError(w.t, json.Unmarshal(raw, &state))
	names := []string{}
	for _, r := range state.Resources {
		names = append(names, r.Name)
	}
	return names
}

// script is a module whose resource of that name runs a script when it is made.
func script(name, commands string) string {
	return fmt.Sprintf("resource \"terraform_data\" %q {\n  provisioner \"local-exec\" {\n    command = <<-EOT\n%s\n    EOT\n  }\n}\n", name, commands)
}

// running are the processes of a user.
func running(t *testing.T, uid int) (n int) {
	t.Helper()
	all, err := procfs.AllProcs()
	require.NoError(t, err)
	for _, p := range all {
		if status, err := p.NewStatus(); err == nil && status.UIDs[0] == uint64(uid) {
			n++
		}
	}
	return n
}

// A module is made, kept and destroyed by runs that share nothing but its state.
func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := `
		terraform {
		  backend "local" {}
		}
		variable "size" {}
		resource "terraform_data" "one" { input = var.size }`
	for _, want := range []string{"1 added", "0 added, 0 changed"} {
		run := w.open(main, map[string]string{"size": "small", "unknown": "x"})
		var output strings.Builder
		require.NoError(t, run.Init(t.Context(), &output))
		require.NoError(t, apply(t.Context(), run, &output))
		require.Contains(t, output.String(), want)
		require.Equal(t, []string{"one"}, w.resources())
	}
	run := w.open(main, map[string]string{"size": "small"})
	var output strings.Builder
	require.NoError(t, run.Init(t.Context(), &output))
	require.NoError(t, run.Destroy(t.Context(), &output))
	require.Empty(t, w.resources())
}

// A module finds nothing of the server's: neither its environment and files, nor the directory of another run. Not parallel:
// it sets a variable.
func TestRun_isolation(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can run a module as another user")
	}
	t.Setenv("PREWARM_POSTGRES_URL", "postgres://secret-of-the-server")
	w := newWorld(t)
	secret := filepath.Join(w.root, "encryption.keys")
	require.NoError(t, os.WriteFile(secret, []byte("key-of-the-server"), 0o600))
	other, err := w.Open(terraform.Module{Files: map[string]string{"main.tf": "# other-module"}}, terraform.Backend{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = other.Close() })
	run := w.open(script("spy", fmt.Sprintf(`
		echo "I am $(id -u) in $(id -G)"
		env
		cat /proc/%d/environ %s %s/prewarm-run-*/module/main.tf; ls %s
		kill -9 %d; echo "kill: $?"
		true`, os.Getpid(), secret, w.root, w.root, os.Getpid())), nil)
	var output strings.Builder
	require.NoError(t, run.Init(t.Context(), &output))
	require.NoError(t, apply(t.Context(), run, &output), output.String())
	out := output.String()
	who := regexp.MustCompile(`I am (\d+) in (\d+)\s`).FindStringSubmatch(out)
	require.NotNil(t, who, out)
	require.Equal(t, who[1], who[2], "no group but its own")
	uid, err := strconv.Atoi(who[1])
	require.NoError(t, err)
	require.Greater(t, uid, 1_879_048_191)
	require.Contains(t, out, "TF_HTTP_PASSWORD=[redacted]")
	require.Contains(t, out, "kill: 1")
	for _, never := range []string{"secret-of-the-server", "key-of-the-server", "other-module"} {
		require.NotContains(t, out, never)
	}
	require.Zero(t, running(t, uid))
}

// What a module leaves behind in a session of its own ends with the command.
func TestRun_leavesNoProcess(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root has PID namespaces")
	}
	w := newWorld(t)
	run := w.open(script("daemon", `setsid sh -c 'exec >/dev/null 2>&1; sleep 1000' & id -u`), nil)
	var output strings.Builder
	require.NoError(t, run.Init(t.Context(), &output))
	require.NoError(t, apply(t.Context(), run, &output), output.String())
	who := regexp.MustCompile(`\(local-exec\): (\d+)\n`).FindStringSubmatch(output.String())
	require.NotNil(t, who, output.String())
	uid, err := strconv.Atoi(who[1])
	require.NoError(t, err)
	require.Eventually(t, func() bool { return running(t, uid) == 0 }, eventually, poll)
}

// What a plan creates has the addresses that the state then has, whatever the keys.
func TestRun_addresses(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, err := w.states.Begin(t.Context(), w.job, 1)
	require.NoError(t, err)
	run, err := w.Open(terraform.Module{Files: map[string]string{
		"main.tf": `
			module "each" {
			  source   = "./each"
			  for_each = toset(["a.b", "quote \" and \\", "$${x} %%{y} $z", "über ☃"])
			}
`,
		"each/main.tf": `
			resource "terraform_data" "one" {}
			resource "terraform_data" "counted" { count = 2 }
			resource "terraform_data" "keyed" { for_each = toset(["k", "[\"0\"]", "$${k} %%{k}"]) }`,
	}}, terraform.Backend{URL: w.url, WorkspaceID: c.WorkspaceID.String(), Token: c.Token})
	require.NoError(t, err)
	defer func() { require.NoError(t, run.Close()) }()
	var output strings.Builder
	require.NoError(t, run.Init(t.Context(), &output), output.String())
	planned, err := run.Plan(t.Context(), &output)
	creates := planned.Creates
	require.NoError(t, err, output.String())
	require.Len(t, creates, 24)
	require.NoError(t, w.states.Applying(t.Context(), c.WorkspaceID, c.Token, creates))
	require.NoError(t, run.Apply(t.Context(), &output), output.String())
	is, err := w.states.Of(t.Context(), c.WorkspaceID)
	require.NoError(t, err)
	require.Empty(t, is.Unsure)
	planned, err = run.Plan(t.Context(), &output)
	creates = planned.Creates
	require.NoError(t, err)
	require.Empty(t, creates)
}

// What was planned is applied, and nothing is asked again.
func TestRun_appliesThePlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(w.root, "asked")
	says := func(name string) {
		require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `{"version": 4, "terraform_version": "1.6.0", "serial": 1, "lineage": "l",
			"outputs": {"name": {"value": %q, "type": "string"}}, "resources": []}`, name), 0o644))
	}
	says("planned")
	run := w.open(fmt.Sprintf(`
		data "terraform_remote_state" "asked" {
		  backend = "local"
		  config  = { path = %q }
		}
		resource "terraform_data" "of" { for_each = toset([data.terraform_remote_state.asked.outputs.name]) }`, file), nil)
	var output strings.Builder
	require.NoError(t, run.Init(t.Context(), &output))
	creates, err := run.Plan(t.Context(), &output)
	require.NoError(t, err)
	require.Equal(t, []string{`terraform_data.of["planned"]`}, creates.Creates)
	says("changed")
	require.NoError(t, run.Apply(t.Context(), &output), output.String())
	require.Contains(t, output.String(), `terraform_data.of["planned"]: Creation complete`)
	require.NotContains(t, output.String(), "changed\"")
}

// A run that is given up ends soon, and the state has what was made: the next run destroys it.
func TestRun_givenUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	main := "resource \"terraform_data\" \"one\" {}\n" + script("hangs", "echo hanging; sleep 1000") +
		"resource \"terraform_data\" \"later\" { depends_on = [terraform_data.hangs] }\n"
	run := w.open(main, nil)
	begun := newSignal("hanging")
	require.NoError(t, run.Init(t.Context(), begun))
	ctx, giveUp := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- apply(ctx, run, begun) }()
	select {
	case <-begun.seen:
	case err := <-done:
		require.NoError(t, err, begun.all.String())
	}
	giveUp()
	require.ErrorIs(t, <-done, context.Canceled)
	require.ErrorIs(t, run.Apply(ctx, begun), context.Canceled, "nothing begins any more")

	next := w.open(main, nil)
	var output strings.Builder
	require.NoError(t, next.Init(t.Context(), &output))
	require.Contains(t, w.resources(), "one")
	require.NotContains(t, w.resources(), "later")
	next = w.open(main, nil)
	require.NoError(t, next.Init(t.Context(), &output))
	require.NoError(t, next.Destroy(t.Context(), &output), output.String())
	require.Empty(t, w.resources())
}

// An error has the end of the output, and no secret.
func TestRun_error(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run := w.open(script("fails", "echo hunter2-hunter2; exit 7"), nil)
	var output strings.Builder
	require.NoError(t, run.Init(t.Context(), &output))
	err := apply(t.Context(), run, &output, "hunter2-hunter2")
	require.ErrorContains(t, err, filepath.Base(w.Program)+" apply: Error: local-exec provisioner error: with terraform_data.fails")
	require.ErrorContains(t, err, "exit status 7")
	require.NotContains(t, err.Error()+output.String(), "hunter2")
	require.Contains(t, output.String(), "[redacted]")
}

// A module stays in its directory, and one that does not fit leaves nothing behind.
func TestOpen_badFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, name := range []string{"../x", "/x", "a/../../x", "", ".", "a\x00b"} {
		_, err := w.Open(terraform.Module{Files: map[string]string{name: "x"}}, terraform.Backend{})
		require.Error(t, err, name)
		require.True(t, provider.IsPermanent(err), name)
	}
	left, err := os.ReadDir(w.root)
	require.NoError(t, err)
	require.Empty(t, left)
	run, err := w.Open(terraform.Module{Files: map[string]string{"modules/a/main.tf": "# deep"}}, terraform.Backend{})
	require.NoError(t, err)
	require.NoError(t, run.Close())
}

// signal is output that is waited for.
type signal struct {
	text string
	all  strings.Builder
	seen chan struct{}
}

func newSignal(text string) *signal { return &signal{text: text, seen: make(chan struct{})} }

func (s *signal) Write(p []byte) (int, error) {
	before := strings.Contains(s.all.String(), s.text)
	s.all.Write(p)
	if !before && strings.Contains(s.all.String(), s.text) {
		close(s.seen)
	}
	return len(p), nil
}

// What a killed server leaves has variables in it, which may be secret. The next server removes it, and nothing else.
func TestNew_removesWhatWasLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	run, err := w.Open(terraform.Module{Files: map[string]string{"main.tf": ""}}, terraform.Backend{})
	require.NoError(t, err)
	going, err := filepath.Glob(filepath.Join(w.root, "prewarm-run-*"))
	require.NoError(t, err)
	require.Len(t, going, 1)

	left, making, other := filepath.Join(w.root, "prewarm-run-left"), filepath.Join(w.root, "prewarm-making-left"), t.TempDir()
	require.NoError(t, os.Mkdir(making, 0o700))
	require.NoError(t, os.MkdirAll(filepath.Join(left, "module"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(left, "module", "x"), nil, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(other, "kept"), nil, 0o600))
	require.NoError(t, os.Symlink(other, filepath.Join(w.root, "prewarm-run-link")))
	if os.Geteuid() == 0 {
		strangers := filepath.Join(w.root, "prewarm-run-strangers")
		require.NoError(t, os.Mkdir(strangers, 0o700))
		require.NoError(t, os.Chown(strangers, 12345, 12345))
		defer func() { require.DirExists(t, strangers) }()
	}
	_, err = terraform.New(t.Context(), w.Runner.Options)
	require.NoError(t, err)
	require.NoDirExists(t, left)
	require.NoDirExists(t, making)
	require.FileExists(t, filepath.Join(other, "kept"))
	require.DirExists(t, going[0], "its run goes on")
	require.NoError(t, run.Close())
	require.NoDirExists(t, going[0])
}

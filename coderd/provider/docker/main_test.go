package docker_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cdr.dev/slog"
	"cdr.dev/slog/sloggers/sloghuman"
	"github.com/google/uuid"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
)

func TestMain(m *testing.M) { dockertest.Main(m) }

// rounds is how often something is tried: a few times in CI, PREWARM_ROUNDS times in `make test-long`.
func rounds(few int) int {
	if n, err := strconv.Atoi(os.Getenv("PREWARM_ROUNDS")); err == nil && n > 0 {
		return n
	}
	return few
}

// open makes a provider of the shared engine.
func open(t *testing.T, e *dockertest.Engine, config docker.Config) *docker.Provider {
	t.Helper()
	config.Host = e.Host
	p, err := docker.New(t.Context(), docker.Options{Config: config, Logger: slog.Make(sloghuman.Sink(os.Stderr))})
	require.NoError(t, err)
	return p
}

func parse(t *testing.T, text string) docker.Config {
	t.Helper()
	config, err := docker.ParseConfig(json.RawMessage(text))
	require.NoError(t, err)
	return config
}

var inside struct {
	once sync.Once
	path string
	err  error
}

// inner is the program that stands for the prewarm binary inside of containers: static, which a test binary need not be.
func inner(t *testing.T) string {
	t.Helper()
	dir := dockertest.Shared(t).Dir // it goes with the engine
	inside.once.Do(func() {
		inside.path = filepath.Join(dir, "prewarm")
		build := exec.Command("go", "build", "-o", inside.path, "./testdata/inner")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			inside.err = xerrors.Errorf("build: %s: %w", out, err)
		}
	})
	require.NoError(t, inside.err)
	return inside.path
}

// workspace is one that a test made; it is deleted with the test.
type workspace struct {
	t   *testing.T
	p   *docker.Provider
	e   *dockertest.Engine
	req provider.CreateRequest
	provider.Instance
}

func request(name, spec string) provider.CreateRequest {
	return provider.CreateRequest{
		Name: name + "-" + strings.ToLower(rand.Text()[:8]), Organization: "default", Template: "guests", Preset: "small",
		Tags: provider.Tags{Installation: uuid.New(), WorkspaceID: uuid.New(), Incarnation: 1},
		Spec: json.RawMessage(spec), Parameters: map[string]string{"region-a": "north"},
		Defaults: provider.CurrentDefaults,
	}
}

// create makes a workspace of the guest's image; fields are more of its spec.
func create(t *testing.T, e *dockertest.Engine, p *docker.Provider, fields string) *workspace {
	t.Helper()
	return createAs(t, e, p, request("guest", `{"image": "`+e.Image(t)+`", "pull": "never"`+fields+`}`))
}

func createAs(t *testing.T, e *dockertest.Engine, p *docker.Provider, req provider.CreateRequest) *workspace {
	t.Helper()
	t.Cleanup(func() {
		_ = p.Delete(context.WithoutCancel(t.Context()), provider.Ref{Name: req.Name, WorkspaceID: req.Tags.WorkspaceID})
	})
	i, err := p.Create(t.Context(), req)
	require.NoError(t, err)
	return &workspace{t: t, p: p, e: e, req: req, Instance: i}
}

func (w *workspace) ref() provider.Ref {
	return provider.Ref{Name: w.Name, ProviderID: w.ProviderID, WorkspaceID: w.Tags.WorkspaceID}
}

// inspect is what the engine says of the container.
func (w *workspace) inspect() container.InspectResponse {
	w.t.Helper()
	is, err := w.e.Client.ContainerInspect(w.t.Context(), w.ProviderID, client.ContainerInspectOptions{})
	require.NoError(w.t, err)
	return is.Container
}

// run runs a command of the guest's in it, and returns its output.
func (w *workspace) run(args ...string) string {
	w.t.Helper()
	var out bytes.Buffer
	status, err := w.p.Exec(w.t.Context(), w.ref(), provider.ExecRequest{
		Command: append([]string{"/bin/guest"}, args...), Stdout: &out, Stderr: &out,
	})
	require.NoError(w.t, err)
	require.Zero(w.t, status, out.String())
	return out.String()
}

// eventually polls for as long as a slow machine may need.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 2*time.Minute, 50*time.Millisecond, what)
}

func (w *workspace) becomesReady() {
	w.t.Helper()
	var last provider.Readiness
	eventually(w.t, "it becomes ready", func() bool {
		var err error
		last, err = w.p.Ready(w.t.Context(), w.ref())
		require.NoError(w.t, err)
		require.False(w.t, last.Failed, last.Detail)
		return last.Ready
	})
}

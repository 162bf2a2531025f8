package external_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cdr.dev/slog/sloggers/slogtest"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/external"
	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
)

// deadline is a time that only a hang exceeds.
const deadline = time.Minute

// reference is the built executable.
var reference string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "prewarm-external-")
	if err == nil {
		reference = filepath.Join(dir, "reference")
		err = externaltest.Build(reference)
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// site is a cloud of its own with its executable.
type site struct {
	t            *testing.T
	dir          string
	installation uuid.UUID
	config       map[string]any // of the provider
}

// newSite makes a cloud that must have no process left when the test ends.
func newSite(t *testing.T, c externaltest.Config) *site {
	t.Helper()
	s := &site{t: t, dir: t.TempDir(), installation: uuid.New()}
	c.Root = filepath.Join(s.dir, "cloud")
	require.NoError(t, c.Write(filepath.Join(s.dir, "config.json")))
	require.NoError(t, os.Link(reference, filepath.Join(s.dir, "provider"))) // by which its processes are told
	s.config = map[string]any{
		"executable": filepath.Join(s.dir, "provider"), "config_file": filepath.Join(s.dir, "config.json"),
	}
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return len(s.processes()) == 0 }, deadline, 10*time.Millisecond,
			"processes are left: %v", s.processes())
	})
	return s
}

func (s *site) options() external.Options {
	s.t.Helper()
	raw, err := json.Marshal(s.config)
	require.NoError(s.t, err)
	config, err := external.ParseConfig(raw)
	require.NoError(s.t, err)
	return external.Options{
		Config: config, Installation: s.installation,
		Logger: slogtest.Make(s.t, &slogtest.Options{IgnoreErrors: true}),
	}
}

func (s *site) open() *external.Provider {
	s.t.Helper()
	p, err := external.New(s.t.Context(), s.options())
	require.NoError(s.t, err)
	return p
}

func (s *site) foreign() *external.Provider {
	s.t.Helper()
	opts := s.options()
	opts.Installation = uuid.NewSHA1(s.installation, []byte("foreign"))
	p, err := external.New(s.t.Context(), opts)
	require.NoError(s.t, err)
	return p
}

const good = `{"image": "ubuntu", "flavor": "small", "extra_specs": {"disk_gb": 20}}`

func (s *site) request(name string) provider.CreateRequest {
	return provider.CreateRequest{
		Name: name, Tags: provider.Tags{Installation: s.installation, WorkspaceID: uuid.New(), Incarnation: 1},
		Organization: "default", Template: "vm", Preset: "small", Spec: json.RawMessage(good),
	}
}

func refOf(req provider.CreateRequest) provider.Ref {
	return provider.Ref{Name: req.Name, WorkspaceID: req.Tags.WorkspaceID}
}

// processes are those of the site's executable, zombies apart.
func (s *site) processes() []int {
	var found []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		exe, _ := os.Readlink("/proc/" + e.Name() + "/exe")
		if pid, err := strconv.Atoi(e.Name()); err == nil && strings.HasPrefix(exe, s.dir+"/") {
			found = append(found, pid)
		}
	}
	return found
}

// files is how many instances the installation has in the cloud.
func (s *site) files() int {
	s.t.Helper()
	files, err := filepath.Glob(filepath.Join(s.dir, "cloud", s.installation.String(), "*"))
	require.NoError(s.t, err)
	return len(files)
}

// calls are the runs of the executable so far, of one command.
func (s *site) calls(command string) []externaltest.Call {
	s.t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.dir, "cloud", "calls"))
	require.NoError(s.t, err)
	var calls []externaltest.Call
	for line := range strings.Lines(string(raw)) {
		var c externaltest.Call
		require.NoError(s.t, json.Unmarshal([]byte(line), &c))
		calls = append(calls, c)
	}
	return slices.DeleteFunc(calls, func(c externaltest.Call) bool { return c.Command != command })
}

// must runs a call that takes a ref.
func must(t *testing.T, call func(context.Context, provider.Ref) error, ref provider.Ref) {
	t.Helper()
	require.NoError(t, call(t.Context(), ref))
}

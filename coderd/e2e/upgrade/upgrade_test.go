package upgrade_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// fieldPatience is how long an answer of the new server may lack a field because something has just changed.
const fieldPatience = 10 * time.Second

// The release before and this one run side by side on a database that the former filled: columns and fields stay, both pass
// and claim, each command line works with each server, and the old page with both. Then the old one stops, and the new one
// finishes everything.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	ctx, before := t.Context(), olderBinary(t)
	address, conn := emptyDatabase(t)
	options := e2etest.Options{PostgresURL: address, Tick: time.Second, Env: []string{"PREWARM_DRAIN=0s"}}
	opts := options
	opts.Binary, opts.Replica = before, "old"
	old := e2etest.Start(t, opts)
	fill(t, old)
	had := columns(t, conn)
	stored, err := old.Client.Preset(ctx, "failing", "default")
	require.NoError(t, err)

	opts = options
	opts.Replica, opts.DataDir = "new", t.TempDir()
	keys, err := os.ReadFile(filepath.Join(old.DataDir, "encryption.keys"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(opts.DataDir, "encryption.keys"), keys, 0o600))
	renewed := e2etest.Start(t, opts)
	renewed.Client.Token = old.Client.Token
	assert.Subset(t, columns(t, conn), had, "a column is removed a release after it is no longer used")

	same, err := renewed.Client.Preset(ctx, "failing", "default")
	require.NoError(t, err)
	assert.NotEmpty(t, same.Reasons, "the old reasons %q are readable", stored.Reasons)
	passes := map[string]bool{}
	eventually(t, "both replicas pass", func() bool {
		var holder string
		if err := conn.QueryRow(ctx, "SELECT holder FROM reconcile_fence").Scan(&holder); err != nil {
			t.Errorf("read fence: %v", err)
		}
		passes[holder] = true
		return passes["old"] && passes["new"] || t.Failed()
	})
	checkFields(t, before, old, renewed)
	for _, binary := range []string{before, e2etest.Binary(t)} {
		for _, s := range []*e2etest.Server{old, renewed} {
			claimAndRelease(t, binary, s)
		}
	}
	visit(t, old.URL, old)
	mixed := httptest.NewServer(oldPageNewAPI(t, old, renewed))
	defer mixed.Close()
	visit(t, mixed.URL, old)

	finish(t, old, renewed)
}

// checkFields holds what the old server answers, and what the old commands print, against the new server.
func checkFields(t *testing.T, before string, old, renewed *e2etest.Server) {
	t.Helper()
	claimed, err := old.Client.Workspaces(t.Context(), sdk.WorkspaceFilter{State: "claimed"})
	require.NoError(t, err)
	require.Len(t, claimed.Workspaces, 1)
	paths := readings(t, old, claimed.Workspaces[0].Name)
	require.Greater(t, len(paths), 15)
	for _, path := range paths {
		answer := func(s *e2etest.Server) func() []byte {
			return func() []byte { _, body := get(t, s, path); return body }
		}
		sameFields(t, "GET "+path, answer(old), answer(renewed))
	}
	for _, line := range []string{
		"preset list", "preset show pools/default", "preset explain pools/default", "preset explain failing/default",
		"preset failures failing/default", "template list", "template versions pools",
		"workspace list", "workspace show " + claimed.Workspaces[0].Name,
		"plan", "pause list", "provider list", "replicas", "audit list", "quota list", "token list", "whoami",
		"forge list", "forge show acme", "job list", "runner list", "inventory",
	} {
		printed := func(s *e2etest.Server) func() []byte {
			return func() []byte { return command(t, before, s, strings.Fields(line)...) }
		}
		sameFields(t, "prewarm "+line, printed(old), printed(renewed))
	}
}

// command is what a command prints as JSON.
func command(t testing.TB, binary string, s *e2etest.Server, args ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append(args, "-o", "json")...)
	cmd.Env = append(os.Environ(), "PREWARM_URL="+s.URL, "PREWARM_TOKEN="+s.Client.Token)
	out, err := cmd.Output()
	if err != nil {
		stderr := ""
		if exit := new(exec.ExitError); errors.As(err, &exit) {
			stderr = string(exit.Stderr)
		}
		t.Logf("%s at %s: %v: %s", strings.Join(args, " "), s.Replica, err, stderr)
	}
	return out
}

// visit opens the pages in Chromium.
func visit(t *testing.T, address string, s *e2etest.Server) {
	t.Helper()
	packages, err := filepath.Abs("../../../site/package.json")
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(filepath.Dir(packages), "node_modules", "playwright-core")); err != nil {
		t.Fatalf("the browser's driver is missing: %v; run make site first", err)
	}
	paths, err := json.Marshal(map[string][]string{
		"/":                        {"pools/default", "pools/paused", "failing/default", "retired/default", "runners/linux"},
		"/presets/pools/default":   {"default", "ready"},
		"/presets/failing/default": {"failing"},
		"/templates":               {"pools", "retired"},
		"/templates/pools":         {"office-hours"},
		"/claims":                  {"pools/default"},
		"/providers/cloud":         {"cloud"},
		"/replicas":                {"old", "new"},
		"/jobs":                    {"Jobs"},
		"/audit":                   {"pools"},
	})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	chromium, err := exec.CommandContext(ctx, "../../../scripts/chromium.sh").Output()
	require.NoError(t, err, "find Chromium")
	node := exec.CommandContext(ctx, "node", "testdata/page.mjs", packages)
	node.Env = append(os.Environ(), "PREWARM_CHROMIUM="+strings.TrimSpace(string(chromium)), "PAGE="+address, "TOKEN="+s.Client.Token, "PATHS="+string(paths))
	out, err := node.CombinedOutput()
	assert.NoError(t, err, "the old page at %s:\n%s", address, out)
}

// finish stops the old server, and has the new one finish what there is: claims are released, pools become larger, and what
// was paused, quarantined or deprecated is as it was.
func finish(t *testing.T, old, renewed *e2etest.Server) {
	t.Helper()
	ctx, c := t.Context(), renewed.Client
	claimed, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: "claimed"})
	require.NoError(t, err)
	require.Zero(t, old.Stop(), "an orderly stop (G6)")
	for _, w := range claimed.Workspaces {
		_, err := c.ReleaseWorkspace(ctx, w.Name)
		require.NoError(t, err)
		eventually(t, "a released workspace is deleted", func() bool {
			is, err := c.Workspace(ctx, w.ID.String())
			return err == nil && is.State == "deleted"
		})
	}
	quarantined, err := c.Workspaces(ctx, sdk.WorkspaceFilter{State: "quarantined"})
	require.NoError(t, err)
	require.Len(t, quarantined.Workspaces, 1)
	_, err = c.RetryWorkspace(ctx, quarantined.Workspaces[0].Name)
	var refused *sdk.Error
	if err != nil {
		require.ErrorAs(t, err, &refused) // its pool is full
	}
	require.NoError(t, c.Resume(ctx, "preset", "pools/paused"))
	require.NoError(t, c.UndeprecateTemplate(ctx, "retired"))
	settled(t, renewed, "pools/default", 4)
	settled(t, renewed, "pools/paused", 1)
	settled(t, renewed, "retired/default", 1)
}

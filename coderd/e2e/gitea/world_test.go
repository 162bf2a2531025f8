package gitea_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// template is a pool of Gitea's own runner in directories of this machine. The token of registration goes by standard input:
// whoever may list processes reads arguments.
const template = `
templates:
  - name: runners
    provider: local
    boot_timeout: 3m
    agent:
      runner: [sh, -c, '
        (cat "$PREWARM_RUNNER_TOKEN_FILE"; echo) | "%[1]s" register --ephemeral --instance "$PREWARM_RUNNER_URL"
        --name "$PREWARM_RUNNER_NAME" --labels "$(echo "$PREWARM_RUNNER_LABELS" | sed "s/,/:host,/g"):host" &&
        exec "%[1]s" daemon']
    spec: {command: [sleep, infinity]}
    presets:
      - name: linux
        prebuilds: {instances: %[2]d}
        runner: {forge: shop, labels: [self-hosted, linux], maximum: 5}
`

// world is a Prewarm beside a Gitea.
type world struct {
	*e2etest.Server

	forge   *forge
	options e2etest.Options

	claimed map[string]bool // workspaces that were seen claimed
}

// startWorld starts a server, whose workspaces are gone before it is.
func startWorld(t *testing.T, f *forge) *world {
	t.Helper()
	port := freePort(t)
	w := &world{forge: f, claimed: map[string]bool{}, options: e2etest.Options{
		PostgresURL: dbtest.URL(t), DataDir: t.TempDir(), Tick: time.Second, Listen: fmt.Sprintf("127.0.0.1:%d", port),
		Args: []string{"--access-url", fmt.Sprintf("http://127.0.0.1:%d", port)},
	}}
	w.Server = e2etest.Start(t, w.options)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		select {
		case <-w.Done():
			w.Server = e2etest.Start(t, w.options)
		default:
		}
		_ = w.Client.DeleteTemplate(ctx, "runners")
		require.Eventually(t, func() bool {
			left, _ := filepath.Glob(filepath.Join(w.DataDir, "local", "prebuild-*"))
			return len(left) == 0
		}, patience, 200*time.Millisecond, "workspaces are left")
	})
	return w
}

// prewarm is a command that must succeed, and returns what it said.
func (w *world) prewarm(t *testing.T, args ...string) string {
	t.Helper()
	env := []string{"PREWARM_URL=" + w.URL, "PREWARM_TOKEN_FILE=" + filepath.Join(w.DataDir, "owner-token"), "PREWARM_TOKEN="}
	came := e2etest.Run(t.Context(), t, env, args...)
	require.Zero(t, came.Status, "prewarm %v: %s%s", args, came.Stdout, came.Stderr)
	t.Logf("$ prewarm %v\n%s%s", args, came.Stdout, came.Stderr)
	return came.Stdout
}

// connect makes credential, entity and webhook as docs/forges.md has it.
func (w *world) connect(t *testing.T) {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte(w.forge.token+"\n"), 0o600))
	w.prewarm(t, "forge", "credential", "add", "gitea", "--kind", "gitea", "--api-url", w.forge.url, "--forge-token-file", token)
	w.prewarm(t, "forge", "add", "shop", "--scope", "repository", "--path", "acme/shop", "--credential", "gitea")
	w.prewarm(t, "forge", "webhook", "install", "shop")
	w.prewarm(t, "forge", "check", "shop")
	w.prewarm(t, "forge", "webhook", "ping", "shop")
}

func (w *world) apply(t *testing.T, instances int) {
	t.Helper()
	_, err := w.Client.Apply(t.Context(), sdk.ApplyRequest{
		Document: fmt.Sprintf(template, runnerFor(t), instances), File: "runners.yaml",
	})
	require.NoError(t, err)
}

// in are the names of workspaces in a state.
func (w *world) in(t *testing.T, state string) []string {
	t.Helper()
	list, err := w.Client.Workspaces(t.Context(), sdk.WorkspaceFilter{State: state})
	require.NoError(t, err)
	var names []string
	for _, one := range list.Workspaces {
		names = append(names, one.Name)
	}
	slices.Sort(names)
	return names
}

// warm waits until the runners of Gitea are exactly the ready workspaces, as many as said, all idle.
func (w *world) warm(t *testing.T, n int) []string {
	t.Helper()
	began := time.Now()
	var names []string
	until(t, fmt.Sprintf("%d runners are idle and no others there", n), func() bool {
		names = nil
		for _, r := range w.forge.runners(t, "shop") {
			if r.Busy || r.Status != "online" {
				return false
			}
			names = append(names, r.Name)
		}
		slices.Sort(names)
		return len(names) == n && slices.Equal(names, w.in(t, "ready")) && len(w.in(t, "claimed")) == 0
	})
	t.Logf("%d idle runners after %s", n, time.Since(began).Round(100*time.Millisecond))
	return names
}

// look notes what is claimed now.
func (w *world) look(t *testing.T) {
	t.Helper()
	for _, name := range w.in(t, "claimed") {
		w.claimed[name] = true
	}
}

// attempts are what Prewarm knows of Gitea's jobs, by the forge's number, the last attempt first.
func (w *world) attempts(t *testing.T) map[int64][]sdk.ForgeJob {
	t.Helper()
	list, err := w.Client.ForgeJobs(t.Context(), sdk.ForgeJobFilter{Forge: "shop"})
	require.NoError(t, err)
	found := map[int64][]sdk.ForgeJob{}
	for _, j := range list.Jobs {
		found[j.JobID] = append(found[j.JobID], j)
	}
	for _, all := range found {
		slices.SortFunc(all, func(a, b sdk.ForgeJob) int { return b.Attempt - a.Attempt })
	}
	return found
}

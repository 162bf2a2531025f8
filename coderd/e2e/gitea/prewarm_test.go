package gitea_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// runners is a template whose agent runs Gitea's runner for one job. Its folder is the workspace's own, and its token is read
// from the file that the agent wrote.
const runners = `
templates:
  - name: runners
    provider: local
    boot_timeout: 2m
    spec:
      command: [sleep, infinity]
    agent:
      runner:
        - sh
        - -ec
        - |
          cd "$(dirname "$PREWARM_RUNNER_TOKEN_FILE")"
          %[1]s register --no-interactive --ephemeral --instance "$PREWARM_RUNNER_URL" --name "$PREWARM_RUNNER_NAME" \
            --token "$(cat "$PREWARM_RUNNER_TOKEN_FILE")" --labels "$(echo "$PREWARM_RUNNER_LABELS" | sed 's/,/:host,/g'):host"
          exec %[1]s daemon
    presets:
      - name: linux
        prebuilds: {instances: 1}
        runner: {forge: acme, labels: [self-hosted, linux], maximum: 1} # so that none but the warm one can take the job
`

// A workflow that is pushed runs on a runner that was warm before: Prewarm installed the webhook, registered the runner, and
// retires it when the job has ended, for the next one to take its place.
func TestGitea_prewarm(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f := startForge(t)
	f.repository(t, "shop")
	server := e2etest.Start(t, e2etest.Options{PostgresURL: dbtest.URL(t), Tick: 300 * time.Millisecond})
	connect(t, f, server, "/repos/acme/shop/hooks", "--scope", "repository", "--path", "acme/shop")
	_, err := server.Client.Apply(ctx, sdk.ApplyRequest{Document: fmt.Sprintf(runners, runnerFor(t)), File: "test.yaml"})
	require.NoError(t, err)
	t.Cleanup(func() { retire(t, server) })

	idle := waitIdle(t, f, server, "")
	f.push(t, "shop", ".gitea/workflows/build.yaml", workflow)
	until(t, "the job runs on the runner that was warm, whose workspace it claims", func() bool {
		w, err := server.Client.Workspace(ctx, idle)
		return err == nil && w.State == "claimed" && w.Owner == "forge-jobs"
	})
	// Both jobs of the workflow, one after the other, each on a runner of its own.
	until(t, "all jobs have ended", func() bool {
		list, err := server.Client.ForgeJobs(ctx, sdk.ForgeJobFilter{State: "completed"})
		return err == nil && len(list.Jobs) == 2
	})
	list, err := server.Client.ForgeJobs(ctx, sdk.ForgeJobFilter{})
	require.NoError(t, err)
	ran := map[string]string{}
	for _, j := range list.Jobs {
		require.Equal(t, "success", j.Conclusion, "%+v", j)
		require.NotNil(t, j.Workspace)
		ran[j.Name] = j.Runner
		t.Logf("%s waited %.1f s for its runner", j.Name, j.WaitS)
	}
	require.Equal(t, idle, ran["build"])
	require.NotEqual(t, ran["build"], ran["deploy"], "a runner takes one job")
	require.Equal(t, "success", f.job(t, "shop", "build").Conclusion, "Gitea agrees")
	until(t, "the workspaces of ended jobs are gone", func() bool {
		for _, name := range ran {
			w, err := server.Client.Workspace(ctx, name)
			if err != nil || w.State != "deleted" {
				return false
			}
		}
		return true
	})
	next := waitIdle(t, f, server, idle)
	require.NotContains(t, ran, next)
	require.Len(t, f.runners(t, "shop"), 1, "nothing is left at the forge but the runner that is idle")
}

// The scope enterprise is a whole Gitea: one pool, with a runner that the repository does not have, serves the repositories of two
// owners, told by one system webhook.
func TestGitea_instance(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f := startForge(t)
	f.repository(t, "shop")
	f.api(t, http.MethodPost, "/orgs", map[string]any{"username": "tools"})
	f.api(t, http.MethodPost, "/orgs/tools/repos", map[string]any{"name": "lint", "auto_init": true, "default_branch": "main"})
	server := e2etest.Start(t, e2etest.Options{PostgresURL: dbtest.URL(t), Tick: 300 * time.Millisecond})
	connect(t, f, server, "/admin/hooks", "--scope", "enterprise")
	_, err := server.Client.Apply(ctx, sdk.ApplyRequest{Document: fmt.Sprintf(runners, runnerFor(t)), File: "test.yaml"})
	require.NoError(t, err)
	t.Cleanup(func() { retire(t, server) })

	until(t, "there is an idle runner of the instance", func() bool {
		list, err := server.Client.Runners(ctx, sdk.RunnerFilter{Status: "idle"})
		return err == nil && len(list.Runners) == 1 && list.Runners[0].State == "ready"
	})
	f.push(t, "shop", ".gitea/workflows/build.yaml", workflow)
	f.api(t, http.MethodPost, "/repos/tools/lint/contents/.gitea/workflows/build.yaml", map[string]any{
		"branch": "main", "message": "build", "content": []byte(workflow),
	})
	var list sdk.ForgeJobList
	until(t, "all jobs have ended", func() bool {
		list, err = server.Client.ForgeJobs(ctx, sdk.ForgeJobFilter{State: "completed"})
		return err == nil && len(list.Jobs) == 4
	})
	of := map[string]int{}
	for _, j := range list.Jobs {
		require.Equal(t, "success", j.Conclusion, "%+v", j)
		require.NotNil(t, j.Workspace, "it ran on one of ours")
		of[j.Repository]++
	}
	require.Equal(t, map[string]int{"acme/shop": 2, "tools/lint": 2}, of)
	require.NoError(t, server.Client.RemoveForgeHook(ctx, "acme"))
	require.Empty(t, into[[]any](t, f, http.MethodGet, "/admin/hooks", nil))
}

// connect makes the forge known to Prewarm as a person does, by the command line, and has it install the webhook, which Gitea has
// at that path then.
func connect(t *testing.T, f *forge, server *e2etest.Server, at string, entity ...string) {
	t.Helper()
	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte(f.token), 0o600))
	owner, err := os.ReadFile(filepath.Join(server.DataDir, "owner-token"))
	require.NoError(t, err)
	env := []string{"PREWARM_URL=" + server.URL, "PREWARM_TOKEN=" + strings.TrimSpace(string(owner))}
	for _, args := range [][]string{
		{"forge", "credential", "add", "gitea", "--kind", "gitea", "--api-url", f.url, "--forge-token-file", token},
		append([]string{"forge", "add", "acme", "--credential", "gitea"}, entity...),
		{"forge", "check", "acme"},
		{"forge", "webhook", "install", "acme"},
		{"forge", "wait", "acme"},
	} {
		out := e2etest.Run(t.Context(), t, env, args...)
		require.Zero(t, out.Status, "prewarm %v: %s%s", args, out.Stdout, out.Stderr)
		require.NotContains(t, out.Stdout+out.Stderr, f.token)
	}
	hooks := into[[]struct {
		Active bool `json:"active"`
	}](t, f, http.MethodGet, at, nil)
	require.Len(t, hooks, 1)
	require.True(t, hooks[0].Active)
}

// waitIdle waits until the pool has a ready runner, another than before, which Gitea sees as well, and returns its name.
func waitIdle(t *testing.T, f *forge, server *e2etest.Server, before string) (name string) {
	t.Helper()
	until(t, "there is an idle runner", func() bool {
		list, err := server.Client.Runners(t.Context(), sdk.RunnerFilter{Status: "idle"})
		if err != nil || len(list.Runners) != 1 || list.Runners[0].State != "ready" || list.Runners[0].Name == before {
			return false
		}
		name = list.Runners[0].Name
		for _, r := range f.runners(t, "shop") {
			if r.Name == name {
				return true
			}
		}
		return false
	})
	return name
}

// retire deletes the template, and waits until all its workspaces are gone: they would outlive the server.
func retire(t *testing.T, server *e2etest.Server) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	_ = server.Client.DeleteTemplate(ctx, "runners")
	until(t, "all workspaces are gone", func() bool {
		list, err := server.Client.Workspaces(ctx, sdk.WorkspaceFilter{})
		if err != nil {
			return false
		}
		for _, w := range list.Workspaces {
			if w.State != "deleted" {
				return false
			}
		}
		return true
	})
}

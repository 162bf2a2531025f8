package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// agentTemplate is one whose scripts leave their marks in the home. on_claim fails where the claim says so.
const agentTemplate = `
templates:
  - name: agents
    provider: local
    boot_timeout: 2m
    agent:
      on_start: [sh, -c, "echo started in $PREWARM_WORKSPACE for $PARAM_SIZE > started"]
      on_claim: [sh, -c, 'echo "$PREWARM_OWNER $PREWARM_CLAIM_ID $PARAM_SIZE $PARAM_SECRET" > claimed; test "$PARAM_SECRET" != bad']
      heartbeat_timeout: %s
    spec:
      command: [sh, -c, "env > environment; exec sleep infinity"]
    presets:
      - name: default
        parameters: {size: small}
        prebuilds: {instances: 1}
`

// agents starts a server with the template, all of whose workspaces are gone before the server is killed: they outlive it.
func agents(t *testing.T, document string, args ...string) *e2etest.Server {
	t.Helper()
	return agentsOn(t, dbtest.URL(t), document, args...)
}

// agentsOn is agents on a database that the test looks into.
func agentsOn(t *testing.T, url, document string, args ...string) *e2etest.Server {
	t.Helper()
	server := e2etest.Start(t, e2etest.Options{PostgresURL: url, Tick: 300 * time.Millisecond, Args: args})
	_, err := server.Client.Apply(t.Context(), sdk.ApplyRequest{Document: document, File: "test.yaml"})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = server.Client.DeleteTemplate(ctx, "agents")
		eventually(t, "all workspaces to be gone", func() bool {
			list, err := server.Client.Workspaces(ctx, sdk.WorkspaceFilter{State: "claimed"})
			for _, w := range list.Workspaces {
				_, _ = server.Client.DeleteWorkspace(ctx, w.Name, false)
			}
			left, _ := filepath.Glob(filepath.Join(server.DataDir, "local", "prebuild-*"))
			return err == nil && len(left) == 0
		})
	})
	return server
}

func ready(t *testing.T, c *sdk.Client) sdk.Workspace {
	t.Helper()
	var found sdk.Workspace
	eventually(t, "a ready workspace", func() bool {
		list, err := c.Workspaces(t.Context(), sdk.WorkspaceFilter{State: "ready", Template: "agents"})
		if err != nil || len(list.Workspaces) == 0 {
			return false
		}
		found = list.Workspaces[0]
		return true
	})
	return found
}

func show(t *testing.T, c *sdk.Client, name string) sdk.Workspace {
	t.Helper()
	w, err := c.Workspace(t.Context(), name)
	require.NoError(t, err)
	require.NotNil(t, w.Agent)
	return w
}

func home(w sdk.Workspace) string {
	for _, a := range w.Addresses {
		if a.Type == "dir" {
			return a.Address
		}
	}
	return ""
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return strings.TrimSpace(string(content))
}

// agentPID finds the agent of a workspace by its environment.
func agentPID(t *testing.T, w sdk.Workspace) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	for _, e := range entries {
		args, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		env, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if strings.Contains(string(args), "\x00agent\x00--\x00") && strings.Contains(string(env), w.ID.String()) {
			pid, err := strconv.Atoi(e.Name())
			require.NoError(t, err)
			return pid
		}
	}
	require.Fail(t, "the workspace has no agent")
	return 0
}

// A secret reaches on_claim as a file, and then is nowhere else: not in the database, and in no file of the server. A claim
// that waits for on_claim goes through workspaces in which it fails, each under a claim of its own.
func TestSecretsAndWaitReady(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-but-longer"
	url := dbtest.URL(t)
	server := agentsOn(t, url, `
templates:
  - name: agents
    provider: local
    boot_timeout: 2m
    agent:
      on_claim: [sh, -c, 'cat "$PREWARM_SECRETS/token" > got; test "$PARAM_FAIL" != yes || exit 7']
    spec: {command: [sleep, infinity]}
    presets:
      - name: default
        prebuilds: {instances: 1}
`)
	c := server.Client
	claim, err := c.Claim(t.Context(), sdk.ClaimRequest{
		Template: "agents", Wait: "2m", WaitReady: "2m", Key: "k1", Secrets: map[string]string{"token": secret},
	})
	require.NoError(t, err)
	require.NotNil(t, claim.WorkspaceID, claim.Reason)
	w := show(t, c, claim.Name)
	require.Equal(t, "claim-ready", w.Agent.Status)
	require.Equal(t, secret, read(t, filepath.Join(home(w), "got")))
	require.NotNil(t, claim.Receipt)
	require.NotNil(t, claim.Receipt.ToldMS)
	require.NotNil(t, w.Receipt.HookMS)
	rows, err := pgx.Connect(t.Context(), url)
	require.NoError(t, err)
	defer func() { _ = rows.Close(context.WithoutCancel(t.Context())) }()
	var left int
	require.NoError(t, rows.QueryRow(t.Context(), `SELECT (SELECT count(*) FROM claim_parameters WHERE secrets IS NOT NULL)
		+ (SELECT count(*) FROM audit_log a WHERE a::text LIKE '%hunter2%')`).Scan(&left))
	require.Zero(t, left)
	require.NotContains(t, server.Log(), "hunter2")

	failed, err := c.Claim(t.Context(), sdk.ClaimRequest{
		Template: "agents", Preset: "default", Wait: "2m", WaitReady: "2m", Key: "k2",
		Parameters: map[string]string{"fail": "yes"}, Secrets: map[string]string{"token": secret},
	})
	require.NoError(t, err)
	require.Equal(t, "miss", failed.Outcome)
	require.Equal(t, 3, failed.Replaced)
	require.Contains(t, failed.Reason, "on_claim failed")
	list, err := c.Workspaces(t.Context(), sdk.WorkspaceFilter{State: "claimed"})
	require.NoError(t, err)
	require.Len(t, list.Workspaces, 1, "those in which it failed are held by nobody")

	_, err = c.Claim(t.Context(), sdk.ClaimRequest{Template: "agents", Secrets: map[string]string{"../x": secret}})
	require.ErrorContains(t, err, "secret name")
	require.NotContains(t, err.Error(), secret)
}

// The whole way with the real binary: on_start makes ready, a claim runs on_claim with owner and late parameters, and
// `workspace show` says so. The token is in its file and nowhere else.
func TestAgentFromStartToClaim(t *testing.T) {
	t.Parallel()
	server := agents(t, fmt.Sprintf(agentTemplate, "30s"))
	c := server.Client

	w := ready(t, c)
	require.Equal(t, "started in "+w.Name+" for small", read(t, filepath.Join(home(w), "started")))
	shown := show(t, c, w.Name)
	require.Equal(t, "ready", shown.Agent.Status)
	var system struct {
		OS   string `json:"os"`
		CPUs int    `json:"cpus"`
	}
	require.NoError(t, json.Unmarshal(shown.Agent.SystemInfo, &system))
	require.Equal(t, "linux", system.OS)
	require.Positive(t, system.CPUs)

	claim, err := c.Claim(t.Context(), sdk.ClaimRequest{
		Template: "agents", Preset: "default", Mode: "require", Parameters: map[string]string{"secret": "it's late"},
	})
	require.NoError(t, err)
	require.Equal(t, w.Name, claim.Name)
	eventually(t, "the agent to be ready for the claim", func() bool { return show(t, c, w.Name).Agent.ClaimReadyAt != nil })
	shown = show(t, c, w.Name)
	require.Equal(t, "claim-ready", shown.Agent.Status)
	require.NotNil(t, shown.Agent.ClaimSeenAt)
	require.Equal(t, "owner "+claim.ClaimID.String()+" small it's late", read(t, filepath.Join(home(w), "claimed")))
	require.Contains(t, read(t, filepath.Join(home(w), ".prewarm", "claim.env")), `export PARAM_SECRET='it'\''s late'`)

	out := e2etest.Run(t.Context(), t, []string{
		"PREWARM_URL=" + server.URL, "PREWARM_TOKEN=" + c.Token,
	}, "workspace", "show", w.Name)
	require.Zero(t, out.Status, out.Stderr)
	require.Regexp(t, `Agent +claim-ready`, out.Stdout)
	require.Regexp(t, `Claim ready +`, out.Stdout)

	token := read(t, filepath.Join(home(w), "..", "agent", "agent-token"))
	require.Equal(t, 2, strings.Count(token, "."))
	info, err := os.Stat(filepath.Join(home(w), "..", "agent", "agent-token"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	pid := strconv.Itoa(agentPID(t, w))
	eventually(t, "the command to have written its environment", func() bool { // nobody waits for that
		content, err := os.ReadFile(filepath.Join(home(w), "environment"))
		return err == nil && strings.Contains(string(content), w.Name)
	})
	for _, place := range []string{
		filepath.Join("/proc", pid, "cmdline"), filepath.Join("/proc", pid, "environ"), filepath.Join(home(w), "..", "log"),
		filepath.Join(home(w), "..", "workspace.json"), filepath.Join(home(w), "environment"),
	} {
		content, err := os.ReadFile(place)
		require.NoError(t, err)
		require.NotContains(t, string(content), token, place)
	}
	require.NotContains(t, server.Log(), token)
	require.NotContains(t, read(t, filepath.Join(home(w), "environment")), "PREWARM_AGENT_")

	// It dies with the claimed work.
	agent, err := sdk.New(server.URL, token)
	require.NoError(t, err)
	_, err = agent.InstanceMetadata(t.Context())
	require.NoError(t, err)
	_, err = c.ReleaseWorkspace(t.Context(), w.Name)
	require.NoError(t, err)
	_, err = agent.InstanceMetadata(t.Context())
	require.Equal(t, http.StatusUnauthorized, sdk.StatusOf(err), "%v", err)
	eventually(t, "the workspace and its agent to be gone", func() bool {
		_, err := os.Stat(filepath.Join("/proc", pid))
		return os.IsNotExist(err)
	})
}

// The example in the documentation works as it stands there.
func TestAgentAsDocumented(t *testing.T) {
	t.Parallel()
	_, example, found := strings.Cut(read(t, "../../docs/agent.md"), "```yaml\n")
	require.True(t, found)
	example, _, _ = strings.Cut(example, "```")
	c := agents(t, strings.Replace(example, "name: go", "name: agents", 1)).Client
	ready(t, c)
	claim, err := c.Claim(t.Context(), sdk.ClaimRequest{
		Template: "agents", Preset: "small", Mode: "require", Parameters: map[string]string{"branch": "feature"},
	})
	require.NoError(t, err)
	eventually(t, "the agent to be ready for the claim", func() bool { return show(t, c, claim.Name).Agent.ClaimReadyAt != nil })
	require.Equal(t, "Hello owner, this is feature", read(t, filepath.Join(home(show(t, c, claim.Name)), "welcome")))
	require.Equal(t, "go.mod", read(t, filepath.Join(home(show(t, c, claim.Name)), "files")))
}

// A claim whose on_claim fails is still a claim: people are told, and nothing is taken away.
func TestAgentClaimFails(t *testing.T) {
	t.Parallel()
	server := agents(t, fmt.Sprintf(agentTemplate, "30s"))
	c := server.Client
	w := ready(t, c)
	_, err := c.Claim(t.Context(), sdk.ClaimRequest{
		Template: "agents", Preset: "default", Mode: "require", Parameters: map[string]string{"secret": "bad"},
	})
	require.NoError(t, err)
	eventually(t, "the failure", func() bool { return show(t, c, w.Name).Agent.Status == "claim-failed" })
	shown := show(t, c, w.Name)
	require.Equal(t, "claimed", shown.State)
	require.Contains(t, shown.Agent.Message, "on_claim ended with exit status 1")
	require.Nil(t, shown.Agent.ClaimReadyAt)
}

// An on_start that fails is a workspace that fails, with the end of its output as the fault.
func TestAgentStartFails(t *testing.T) {
	t.Parallel()
	c := agents(t, `
templates:
  - name: agents
    provider: local
    agent: {on_start: [sh, -c, "echo no such branch >&2; exit 7"]}
    spec: {command: [sleep, infinity]}
    presets: [{name: default, prebuilds: {instances: 1}}]
`).Client
	eventually(t, "a failure", func() bool {
		preset, err := c.Preset(t.Context(), "agents", "default")
		return err == nil && strings.Contains(strings.Join(preset.Reasons, " "), "on_start ended with exit status 7")
	})
	list, err := c.Workspaces(t.Context(), sdk.WorkspaceFilter{State: "ready", Template: "agents"})
	require.NoError(t, err)
	require.Empty(t, list.Workspaces)
}

// kill -9 of the agent of a ready workspace: silent, so it goes back to starting; the provider knows that it is dead, so
// it is replaced. The agent of a claimed one: an alarm, and the claim stays.
func TestAgentKilled(t *testing.T) {
	t.Parallel()
	server := agents(t, fmt.Sprintf(agentTemplate, "15s")) // none that is alive is silent for so long, on however busy a machine
	c := server.Client
	first := ready(t, c)
	require.NoError(t, syscall.Kill(agentPID(t, first), syscall.SIGKILL))
	var second sdk.Workspace
	eventually(t, "another workspace", func() bool {
		second = ready(t, c)
		return second.Name != first.Name
	})
	var path []string
	for _, h := range show(t, c, first.Name).History {
		path = append(path, h.To)
		if h.From == "ready" {
			require.Contains(t, h.Reason, "silent: nothing was heard of its agent for")
		}
	}
	require.Equal(t, []string{"provisioning", "starting", "ready", "starting", "draining"}, path[:5])

	claim, err := c.Claim(t.Context(), sdk.ClaimRequest{Template: "agents", Preset: "default", Mode: "prefer", Wait: "1m"})
	require.NoError(t, err)
	eventually(t, "the agent to be ready for the claim", func() bool { return show(t, c, claim.Name).Agent.ClaimReadyAt != nil })
	claimed := show(t, c, claim.Name)
	require.NoError(t, syscall.Kill(agentPID(t, claimed), syscall.SIGKILL))
	eventually(t, "silence", func() bool { return show(t, c, claim.Name).Agent.Silent })
	eventually(t, "the alarm", func() bool { return strings.Contains(server.Log(), "the agent of a claimed workspace is silent") })
	require.Equal(t, "claimed", show(t, c, claim.Name).State)
	require.Contains(t, metrics(t, server.URL), `prewarm_agents_silent{state="claimed"} 1`)
}

// Keys are rotated while agents live: they get new tokens, and the old key is retired when all have.
func TestAgentKeyRotation(t *testing.T) {
	t.Parallel()
	server := agents(t, fmt.Sprintf(agentTemplate, "4s")) // a heartbeat each second
	c := server.Client
	w := ready(t, c)
	tokenFile := filepath.Join(home(w), "..", "agent", "agent-token")
	before := read(t, tokenFile)
	out := e2etest.Run(t.Context(), t, []string{"PREWARM_URL=" + server.URL, "PREWARM_TOKEN=" + c.Token},
		"admin", "rotate-signing-key")
	require.Zero(t, out.Status, out.Stderr)
	eventually(t, "a new token", func() bool { return read(t, tokenFile) != before })
	eventually(t, "all agents to use the new key", func() bool {
		keys, err := c.SigningKeys(t.Context())
		require.NoError(t, err)
		return len(keys) == 2 && keys[0].Signs && keys[0].Agents == 1 && keys[1].Agents == 0
	})
	old, err := sdk.New(server.URL, before)
	require.NoError(t, err)
	_, err = old.InstanceMetadata(t.Context())
	require.NoError(t, err, "the old key verifies until it is retired")

	// A key that leaked ends at once, within the second for which replicas keep their view of the keys.
	keys, err := c.RotateSigningKey(t.Context(), sdk.RotateRequest{RetireNow: true})
	require.NoError(t, err)
	require.Len(t, keys, 3)
	_, err = old.InstanceMetadata(t.Context())
	require.Equal(t, http.StatusUnauthorized, sdk.StatusOf(err), "%v", err)
	eventually(t, "the cut-off workspace to be replaced", func() bool { return ready(t, c).Name != w.Name })
}

func metrics(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(body)
}

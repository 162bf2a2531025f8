package e2e_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/demand/forgetest"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/hosts/hoststest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// fleetOf is the part of a file that names machines as a provider.
func fleetOf(t *testing.T, f *hoststest.Fleet) string {
	t.Helper()
	return fmt.Sprintf("\nproviders:\n  - {name: fleet, kind: hosts, create_every: 1s, create_burst: 20, config: %s}\n", f.Config(t, nil))
}

// machineOf is the machine that holds a workspace.
func machineOf(t *testing.T, f *hoststest.Fleet, w sdk.Workspace) *hoststest.Machine {
	t.Helper()
	for _, m := range f.Machines {
		state, _ := os.ReadFile(filepath.Join(m.Home, ".prewarm/state"))
		if strings.Contains(string(state), "name="+w.Name+"\n") {
			return m
		}
	}
	require.FailNow(t, "no machine holds "+w.Name)
	return nil
}

// The whole way with the real binary and machines behind a real sshd: the agent is copied, reports, runs on_claim with a
// secret, comes back after its machine was restarted, claimed or not, is replaced where it hangs, and is gone with the
// workspace. Nobody who looks at processes ever sees a token.
func TestHosts_agents(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	f := hoststest.Start(t, 3)
	server := e2etest.Start(t, e2etest.Options{PostgresURL: dbtest.URL(t), Tick: 300 * time.Millisecond})
	c := server.Client
	watched := watchProcesses(t)
	_, err := c.Apply(ctx, sdk.ApplyRequest{Document: fleetOf(t, f) + `
templates:
  - name: agents
    provider: fleet
    boot_timeout: 5m
    agent:
      on_start: [sh, -c, 'cat prepared >started; echo "$PREWARM_WORKSPACE $PARAM_SIZE" >>started']
      on_claim: [sh, -c, 'echo "$PREWARM_OWNER $PARAM_KEY $(cat "$PREWARM_SECRETS/deploy")" >claimed']
      heartbeat_timeout: 15s
    spec: {prepare: "echo prepared >prepared", reset: "true"}
    presets: [{name: default, parameters: {size: small}, prebuilds: {instances: 1}}]
`})
	require.NoError(t, err)

	first := ready(t, c)
	m := machineOf(t, f, first)
	inside := func(m *hoststest.Machine, name string) string {
		return read(t, filepath.Join(m.Home, ".prewarm/workspace", name))
	}
	require.Equal(t, "prepared\n"+first.Name+" small", inside(m, "started"))
	require.Equal(t, "ready", show(t, c, first.Name).Agent.Status)

	// A restart of the machine: silent, back to starting, started again, ready. It is off until then, as a listing would
	// bring the agent back before.
	path := func() string {
		var path []string
		for _, h := range show(t, c, first.Name).History {
			path = append(path, h.To)
		}
		return strings.Join(path, " ")
	}
	m.PowerOff(t)
	coderdtest.Eventually(t, "it to be starting", func() bool { return path() == "provisioning starting ready starting" })
	m.Start(t)
	coderdtest.Eventually(t, "it to be ready again", func() bool { return path() == "provisioning starting ready starting ready" })
	claim, err := c.Claim(ctx, sdk.ClaimRequest{
		Template: "agents", Preset: "default", Mode: "require", WaitReady: "1m",
		Parameters: map[string]string{"key": "late"}, Secrets: map[string]string{"deploy": "hunter2"},
	})
	require.NoError(t, err)
	require.Equal(t, first.Name, claim.Name)
	require.Equal(t, "owner late hunter2", inside(m, "claimed"))
	require.Equal(t, "claim-ready", show(t, c, first.Name).Agent.Status)
	shown := e2etest.Run(ctx, t, as(t, server), "workspace", "exec", first.Name, "--", "sh", "-c", `cat "$PREWARM_SECRETS/deploy"`)
	require.Equal(t, "hunter2", shown.Stdout, shown.Stderr)

	// A claimed one's agent comes back too, with the next listing, and on_claim is not run twice.
	require.NoError(t, os.Remove(filepath.Join(m.Home, ".prewarm/workspace/claimed")))
	m.PowerOff(t)
	coderdtest.Eventually(t, "the silence of the claimed one", func() bool { return show(t, c, first.Name).Agent.Silent })
	m.Start(t)
	_, err = c.Inventories(ctx, "fleet")
	require.NoError(t, err)
	coderdtest.Eventually(t, "the agent of the claimed one", func() bool {
		is := show(t, c, first.Name)
		return !is.Agent.Silent && is.Agent.Status == "claim-ready" && is.State == "claimed"
	})
	require.NoFileExists(t, filepath.Join(m.Home, ".prewarm/workspace/claimed"))

	// One that hangs is not heard of again: its workspace is replaced, and the reset ends it.
	second := ready(t, c)
	other := machineOf(t, f, second)
	for pid, args := range other.Processes("PREWARM_MARK=" + second.ID.String()) {
		if strings.HasSuffix(args, " agent ") && strings.Contains(args, "/.prewarm/agent/") {
			require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
		}
	}
	require.Eventually(t, func() bool { return show(t, c, second.Name).State == "deleted" && ready(t, c).Name != second.Name },
		3*time.Minute, 100*time.Millisecond, "it to be replaced")
	require.Empty(t, other.Processes("PREWARM_MARK="+second.ID.String()))

	var tokens []string
	for _, machine := range f.Machines {
		raw, err := os.ReadFile(filepath.Join(machine.Home, ".prewarm/run/agent-token"))
		if err == nil {
			tokens = append(tokens, strings.TrimSpace(string(raw)))
		}
	}
	require.NotEmpty(t, tokens)
	seen := watched()
	require.Contains(t, seen, "\x00agent\x00", "the watch sees what runs")
	for _, token := range tokens {
		require.NotContains(t, seen, token, "a token is in an argument or in the environment of a process")
		require.NotContains(t, server.Log(), token)
	}

	_, err = c.ReleaseWorkspace(ctx, first.Name)
	require.NoError(t, err)
	require.NoError(t, c.DeleteTemplate(ctx, "agents"))
	coderdtest.Eventually(t, "nothing to be left on any machine", func() bool {
		for _, machine := range f.Machines {
			if _, err := os.Stat(filepath.Join(machine.Home, ".prewarm/run")); err == nil || len(machine.Processes("PREWARM_MARK=")) > 0 {
				return false
			}
		}
		return true
	})
}

// A runner on a machine of a fleet registers at its forge, gets a job, and goes with it; the machine is reset, and has the
// next runner.
func TestHosts_runners(t *testing.T) {
	t.Parallel()
	f := hoststest.Start(t, 2)
	p := newPlantAt(t, 1, forgetest.Options{Seed: 8}, where{providers: fleetOf(t, f), provider: "fleet", spec: `{reset: "true"}`})
	defer p.clear()
	for range 3 {
		p.queue(1, time.Millisecond)
		require.Eventually(t, func() bool { p.soon(); return p.open() == 0 }, 2*time.Minute, 200*time.Millisecond, "the job to end")
		p.rests("the next runner")
	}
	p.judged(3)
}

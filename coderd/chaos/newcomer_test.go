package chaos_test

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// newcomer is somebody at a shell who has just installed the binary and started a server on the same machine: no token
// and no configuration, only the home directory.
type newcomer struct {
	t     *testing.T
	home  string
	env   []string
	began time.Time
}

// newNewcomer starts the server of the newcomer, on an empty data directory at its default place.
func newNewcomer(t *testing.T) (*newcomer, *e2etest.Server) {
	t.Helper()
	home := folder(t)
	n := &newcomer{t: t, home: home, began: time.Now(), env: []string{
		"HOME=" + home, "PREWARM_TOKEN=", "PREWARM_TOKEN_FILE=", "PREWARM_DATA_DIR=", "XDG_DATA_HOME=", "XDG_CONFIG_HOME=",
	}}
	server := e2etest.Start(t, e2etest.Options{
		DataDir: filepath.Join(home, ".local/share/prewarm"), Args: []string{"--quickstart"}, Env: n.env,
	})
	n.env = append(n.env, "PREWARM_URL="+server.URL, "PATH="+filepath.Dir(e2etest.Binary(t))+":"+os.Getenv("PATH"))
	return n, server
}

// step reports how long it took to get here since the last step.
func (n *newcomer) step(what string) {
	n.t.Helper()
	n.t.Logf("%6.2f s  %s", time.Since(n.began).Seconds(), what)
	n.began = time.Now()
}

func (n *newcomer) run(args ...string) e2etest.Outcome {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return e2etest.Run(ctx, n.t, n.env, args...)
}

// ask runs a command that must succeed, and decodes its JSON.
func (n *newcomer) ask(into any, args ...string) {
	n.t.Helper()
	out := n.run(append(args, "-o", "json")...)
	require.Zero(n.t, out.Status, "%v: %s", args, out.Stderr)
	require.NoError(n.t, json.Unmarshal([]byte(out.Stdout), into), out.Stdout)
}

// pool waits until the pool of the quickstart has all it desires.
func (n *newcomer) pool() sdk.Preset {
	n.t.Helper()
	var presets []sdk.Preset
	eventually(n.t, "the pool is full", func() bool {
		n.ask(&presets, "preset", "list")
		return len(presets) == 1 && settled(presets[0].Counts)
	})
	return presets[0]
}

// shell runs a script with prewarm in its PATH.
func (n *newcomer) shell(script string) (string, error) {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", script)
	cmd.Env = append(os.Environ(), n.env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// The first minutes: an empty machine, a server, a warm pool, a claim, the way back.
func TestNewcomer(t *testing.T) {
	t.Parallel()
	n, server := newNewcomer(t)
	n.step("the server is ready, with a PostgreSQL made for it")
	preset := n.pool()
	assert.Equal(t, "quickstart/default", preset.Template+"/"+preset.Preset)
	assert.Equal(t, 3, preset.Actual)
	n.step("3 warm workspaces")
	warm := map[string]process{}
	var list []sdk.Workspace
	n.ask(&list, "workspace", "list", "--state", "ready")
	for _, w := range list {
		state, err := stateOf(w.Environment["PREWARM_DIR"])
		require.NoError(t, err)
		warm[w.Name] = state.Main
	}

	n.began = time.Now()
	var claim sdk.Claim
	n.ask(&claim, "claim", "quickstart/default", "--mode", "require")
	n.step("a claim answers hit")
	assert.Equal(t, "hit", claim.Outcome)
	require.Contains(t, warm, claim.Name, "it was there before")
	require.NoError(t, os.WriteFile(filepath.Join(claim.Environment["PREWARM_DIR"], "mine"), []byte("work"), 0o644))

	n.began = time.Now()
	n.pool()
	n.step("the pool is back at 3")
	out := n.run("workspace", "exec", claim.Name, "--", "sh", "-c", "cat project/README mine; echo $PREWARM_WORKSPACE")
	assert.Zero(t, out.Status, out.Stderr)
	assert.Equal(t, "You were expected.\nwork"+claim.Name+"\n", out.Stdout)
	n.step("entered it")
	state, err := stateOf(claim.Environment["PREWARM_DIR"])
	require.NoError(t, err)
	assert.Equal(t, warm[claim.Name], state.Main, "the claimed process is the one that was warm")
	assert.True(t, state.Main.alive(), "the claimed process is alive")

	n.began = time.Now()
	out = n.run("workspace", "release", claim.Name, "--wait")
	assert.Zero(t, out.Status, out.Stderr)
	n.step("released it, and it is gone")
	assert.False(t, state.Main.alive(), "release ends the process")
	assert.NoDirExists(t, filepath.Dir(claim.Environment["PREWARM_DIR"]))

	assert.Equal(t, 3, n.pool().Actual)
	n.began = time.Now()
	assert.Zero(t, server.Stop(), "exit status")
	n.step("the server has stopped")
	verifyAlive(t, server.DataDir, 3)
}

// verifyAlive: workspaces outlive their server.
func verifyAlive(t *testing.T, root string, n int) {
	t.Helper()
	ids := map[string]bool{}
	for _, p := range workspaceProcesses(t, root) {
		ids[p.workspace] = true
	}
	assert.Len(t, ids, n)
}

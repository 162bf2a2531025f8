package chaos_test

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// What a newcomer tries next, each with the real binary and a real shell.
func TestNewcomer_commands(t *testing.T) {
	t.Parallel()
	n, server := newNewcomer(t)
	n.pool()
	claimed := func() (claimed []sdk.Workspace) {
		n.ask(&claimed, "workspace", "list", "--state", "claimed")
		return claimed
	}

	t.Run("claim --exec", func(t *testing.T) {
		out := n.run("claim", "quickstart/default", "--exec", "--", "sh", "-c", "cat project/README; exit 7")
		assert.Equal(t, 7, out.Status, "the status is the command's")
		assert.Equal(t, "You were expected.\n", out.Stdout)
		assert.Empty(t, claimed(), "it is released afterwards")
	})
	t.Run("claim -o env", func(t *testing.T) {
		out, err := n.shell(`set -e
			env=$(prewarm claim quickstart/default -o env) && eval "$env"
			cd "$PREWARM_DIR" && cat project/README
			prewarm workspace exec "$PREWARM_WORKSPACE" -- sh -c 'echo "$PREWARM_WORKSPACE"'
			prewarm workspace release "$PREWARM_WORKSPACE" --wait`)
		require.NoError(t, err, out)
		assert.Regexp(t, `^You were expected\.\nprebuild-[a-z2-7]{15}\nReleased workspace `, out)
		assert.Empty(t, claimed())
	})
	t.Run("a miss is noticed", func(t *testing.T) {
		n.pool()
		// Else the pool may be refilled as fast as a busy machine starts commands that claim.
		require.Zero(t, n.run("pause", "preset", "quickstart/default", "--reason", "so that nothing refills").Status)
		out, err := n.shell(`for i in 1 2 3 4 5 6; do prewarm claim quickstart/default --mode require -o json || exit; done`)
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit, out)
		assert.Equal(t, 3, exit.ExitCode(), out)
		assert.Contains(t, out, "no warm workspace of quickstart/default")
		for _, w := range claimed() {
			assert.Zero(t, n.run("workspace", "release", w.ID.String()).Status)
		}
		require.Zero(t, n.run("resume", "preset", "quickstart/default").Status)
		n.pool()
	})
	t.Run("preset list --watch", func(t *testing.T) {
		lines, stop := n.background(t, "preset", "list", "--watch", "--interval", "100ms")
		require.Contains(t, <-lines, "quickstart/default version=1 desired=3")
		out := n.run("claim", "quickstart/default")
		require.Zero(t, out.Status, out.Stderr)
		require.Contains(t, <-lines, "quickstart/default", "a change is a line")
		assert.Zero(t, stop(), "an interrupt is how it is meant to end")
		name := claimed()[0].Name
		assert.Zero(t, n.run("workspace", "release", name).Status)
	})
	t.Run("logs --follow", func(t *testing.T) {
		apply(t, server.Client, `
templates:
  - name: talks
    provider: local
    spec:
      setup: [echo, "made ready"]
      command: [sh, -c, "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.1; done"]
    presets:
      - name: default
        prebuilds: {instances: 1}
`)
		var claim sdk.Claim
		n.ask(&claim, "claim", "talks/default")
		lines, stop := n.background(t, "workspace", "logs", claim.Name, "--follow")
		for _, want := range []string{"made ready", "line 1", "line 2", "line 3"} {
			require.Equal(t, want, <-lines)
		}
		require.Zero(t, n.run("workspace", "release", claim.Name).Status)
		for range lines { // the stream ends with the workspace
		}
		assert.Zero(t, stop())
	})
	t.Run("completion", func(t *testing.T) {
		// A server that is slow to answer completes to nothing, so that nobody who pressed Tab waits: they press it again.
		eventually(t, "the preset is completed", func() bool {
			return strings.HasPrefix(n.run("__complete", "claim", "quick").Stdout, "quickstart/default\n")
		})
		var list []sdk.Workspace
		n.ask(&list, "workspace", "list", "--state", "ready", "--template", "quickstart")
		eventually(t, "the workspace is completed", func() bool {
			return strings.Contains(n.run("__complete", "workspace", "show", "prebuild-").Stdout, list[0].Name)
		})
		script, err := n.shell(`prewarm completion bash | bash -n`)
		assert.NoError(t, err, script)
	})
	t.Run("help", func(t *testing.T) {
		out := n.run("--help")
		assert.Contains(t, out.Stdout, "prewarm server --quickstart")
		assert.Zero(t, out.Status)
	})
}

// background starts a command whose lines are read as they come; stop interrupts it and returns its exit status.
func (n *newcomer) background(t *testing.T, args ...string) (lines <-chan string, stop func() int) {
	t.Helper()
	cmd := exec.Command(e2etest.Binary(t), args...)
	cmd.Env = append(os.Environ(), n.env...)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := make(chan string, 1000)
	go func() {
		defer close(c)
		for s := bufio.NewScanner(out); s.Scan(); {
			c <- s.Text()
		}
	}()
	stop = func() int {
		_ = cmd.Process.Signal(syscall.SIGINT)
		for range c { // all is read before Wait closes the pipe
		}
		_ = cmd.Wait()
		return cmd.ProcessState.ExitCode()
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return c, stop
}

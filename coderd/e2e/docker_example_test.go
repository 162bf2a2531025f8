package e2e_test

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// dockerExample is examples/docker.sh, for an engine.
func dockerExample(ctx context.Context, host string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join("examples", "docker.sh"), args...)
	cmd.Dir = filepath.Join("..", "..")
	cmd.Env = append(os.Environ(), "DOCKER_HOST="+host)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with the server
	return cmd
}

// The docker example works with a server that listens elsewhere, also for somebody who is logged in to another one: it says
// what it waits for, and when it says that the pool is warm, the command that it names is a hit. If the server cannot start,
// the script says so and ends.
func TestDockerExample(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	engine := dockertest.Start(t)
	binary, data, listen := e2etest.Binary(t), t.TempDir(), freeListen(t)
	script := dockerExample(ctx, engine.Host, "--listen", listen, "--postgres-url", dbtest.URL(t))
	script.Env = append(script.Env, "PREWARM_BINARY="+binary, "PREWARM_DATA_DIR="+data, "ARGS=--tick 300ms",
		"PREWARM_URL=http://127.0.0.1:1", "PREWARM_TOKEN=of-another")
	said, err := script.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, script.Start())
	var lines []string
	for scan := bufio.NewScanner(said); scan.Scan(); {
		if line, ok := strings.CutPrefix(scan.Text(), "docker.sh: "); ok {
			lines = append(lines, line)
		}
		if strings.Contains(scan.Text(), "--exec -- sh") {
			break
		}
	}
	require.Equal(t, []string{
		"made prewarm.example/hello:1", "waiting for the server, at most 60 s", "waiting for two ready containers, at most 120 s",
		"now try, in another terminal:",
		"  PREWARM_DATA_DIR=" + data + " " + binary + " claim containers/default --exec -- sh",
	}, lines)
	got := e2etest.Run(ctx, t, []string{"PREWARM_DATA_DIR=" + data}, "claim", "containers/default", "--mode", "require",
		"--exec", "--", "cat", "/etc/passwd")
	require.Zero(t, got.Status, got.Stderr)
	require.Equal(t, "root:x:0:0::/:/bin/sh\n", got.Stdout)
	url, err := os.ReadFile(filepath.Join(data, "server-url"))
	require.NoError(t, err)
	require.Equal(t, "http://"+listen+"\n", string(url))

	require.NoError(t, script.Process.Signal(syscall.SIGTERM))
	_ = script.Wait()
	require.Equal(t, 130, script.ProcessState.ExitCode())

	taken, err := net.Listen("tcp", listen)
	require.NoError(t, err)
	t.Cleanup(func() { _ = taken.Close() })
	script = dockerExample(ctx, engine.Host, "--listen", listen, "--postgres-url", dbtest.URL(t))
	script.Env = append(script.Env, "PREWARM_BINARY="+binary, "PREWARM_DATA_DIR="+t.TempDir())
	out, err := script.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "docker.sh: the server has ended")
}

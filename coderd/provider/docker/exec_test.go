package docker_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
)

// withInner is a configuration whose agent binary is the tests' own.
func withInner(t *testing.T, config docker.Config) docker.Config {
	t.Helper()
	config.AgentBinary = inner(t)
	return config
}

func TestExec(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	p := open(t, e, docker.Config{Network: "none"})
	w := create(t, e, p, "")
	run := func(req provider.ExecRequest) (int, string, string) {
		var out, errs bytes.Buffer
		req.Stdout, req.Stderr = &out, &errs
		req.Command = append([]string{"/bin/guest"}, req.Command...)
		status, err := p.Exec(t.Context(), w.ref(), req)
		require.NoError(t, err)
		return status, out.String(), errs.String()
	}
	status, out, errs := run(provider.ExecRequest{Command: []string{"say", "out", "err:errors"}})
	require.Equal(t, []any{0, "out\n", "errors\n"}, []any{status, out, errs})
	status, _, _ = run(provider.ExecRequest{Command: []string{"exit", "7"}})
	require.Equal(t, 7, status)
	_, out, _ = run(provider.ExecRequest{Command: []string{"cat"}, Stdin: strings.NewReader("from outside")})
	require.Equal(t, "from outside", out)
	_, out, _ = run(provider.ExecRequest{Command: []string{"env"}, Env: map[string]string{"MORE": "yes"}})
	require.Contains(t, out, "MORE=yes\n")
	require.Contains(t, out, "PREWARM_WORKSPACE="+w.Name+"\n")

	require.NoError(t, p.Stop(t.Context(), w.ref()))
	_, err := p.Exec(t.Context(), w.ref(), provider.ExecRequest{Command: []string{"/bin/guest", "id"}})
	require.ErrorContains(t, err, "not running")
}

// A terminal has the size that it is given, and each that it is given later.
func TestExecOnTerminal(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	p := open(t, e, docker.Config{Network: "none"})
	w := create(t, e, p, "")
	sizes := make(chan provider.WindowSize, 1)
	sizes <- provider.WindowSize{Rows: 24, Cols: 80}
	in, typed := io.Pipe()
	shown, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		_, err := p.Exec(t.Context(), w.ref(), provider.ExecRequest{
			Command: []string{"/bin/guest", "size"}, TTY: true, Stdin: in, Stdout: out, Resize: sizes,
		})
		_ = out.Close()
		done <- err
	}()
	lines := bufio.NewScanner(shown)
	see := func(size string) {
		for lines.Scan() {
			if strings.TrimSpace(lines.Text()) == size {
				return
			}
		}
		require.Fail(t, "the terminal never had the size "+size)
	}
	see("24x80")
	sizes <- provider.WindowSize{Rows: 50, Cols: 132}
	see("50x132")
	_, err := typed.Write([]byte("\n"))
	require.NoError(t, err)
	_, _ = io.Copy(io.Discard, shown)
	require.NoError(t, <-done)
}

// A command that is given up is killed with what it started, also where it ignores signals and the image has no tool to
// kill with; nothing else is.
func TestExecIsKilled(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	p := open(t, e, withInner(t, docker.Config{Network: "none"}))
	w := create(t, e, p, `, "user": "guest"`)
	for _, tty := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		shown, out := io.Pipe()
		done := make(chan error, 1)
		go func() {
			_, err := p.Exec(ctx, w.ref(), provider.ExecRequest{
				Command: []string{"/bin/guest", "hang"}, TTY: tty, Stdout: out,
			})
			_ = out.Close()
			done <- err
		}()
		line, err := bufio.NewReader(shown).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "hanging", strings.TrimSpace(line))
		eventually(t, "its child runs", func() bool { return strings.Contains(w.run("ps"), "guest hang child") })
		go func() { _, _ = io.Copy(io.Discard, shown) }()
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		require.NotContains(t, w.run("ps"), "guest hang")
		require.Contains(t, w.run("ps"), "guest serve")
	}
}

// Following goes on over a stop and a start, and ends with the workspace.
func TestLogs(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	p := open(t, e, docker.Config{Network: "none"})
	w := create(t, e, p, "")
	logs, err := p.Logs(t.Context(), w.ref(), true)
	require.NoError(t, err)
	lines := bufio.NewScanner(logs)
	expect := func(want string) {
		require.True(t, lines.Scan(), "the log ended before %q: %v", want, lines.Err())
		require.Equal(t, want, lines.Text())
	}
	expect("guest is up")
	require.NoError(t, p.Stop(t.Context(), w.ref()))
	expect("guest goes")
	require.NoError(t, p.Start(t.Context(), w.ref()))
	expect("guest is up")
	now, err := p.Logs(t.Context(), w.ref(), false)
	require.NoError(t, err)
	content, err := io.ReadAll(now)
	require.NoError(t, err)
	require.Equal(t, "guest is up\nguest goes\nguest is up\n", string(content))
	require.NoError(t, p.Delete(t.Context(), w.ref()))
	expect("guest goes")
	require.False(t, lines.Scan())
	require.NoError(t, lines.Err())
	require.NoError(t, logs.Close())

	w = create(t, e, p, "")
	logs, err = p.Logs(t.Context(), w.ref(), true)
	require.NoError(t, err)
	require.NoError(t, logs.Close(), "while it is followed")
}

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/coder/websocket"
	"github.com/creack/pty"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/sdk/sdktest"
)

// runsMain is set for a copy of the test binary that is to be prewarm itself.
const runsMain = "PREWARM_TEST_RUNS_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runsMain) != "" {
		main()
	}
	sdktest.OwnConnections()
	os.Exit(m.Run())
}

// execAnswer serves the command as a real process, on a real terminal if one is asked for.
func execAnswer(t *testing.T) answer {
	t.Helper()
	return answer{handle: func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Errorf("accept: %v", err)
			return
		}
		_ = sdk.ServeExec(r.Context(), quartz.NewReal(), conn, func(ctx context.Context, s sdk.ExecSession) (int, error) {
			cmd := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...)
			cmd.Env = []string{"PATH=/usr/bin:/bin", "TERM=" + s.Env["TERM"]}
			if s.TTY {
				return onTerminal(cmd, s)
			}
			cmd.Stdin, cmd.Stdout, cmd.Stderr = s.Stdin, s.Stdout, s.Stderr
			return exitCode(cmd.Run())
		})
	}}
}

func onTerminal(cmd *exec.Cmd, s sdk.ExecSession) (int, error) {
	size := <-s.Resize
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: size.Rows, Cols: size.Cols})
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	go func() { _, _ = io.Copy(f, s.Stdin) }()
	_, _ = io.Copy(s.Stdout, f)
	return exitCode(cmd.Wait())
}

func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// execServer has one workspace, which can be claimed, entered and released.
func execServer(t *testing.T) *fakeServer {
	t.Helper()
	all := answers(t)
	all["GET /workspaces/"+testWorkspace.Name+"/exec"] = execAnswer(t)
	return newFakeServer(t, all)
}

func released(server *fakeServer) bool {
	return slices.Contains(server.asked(), "POST /workspaces/"+testWorkspace.Name+"/release")
}

func TestWorkspaceExec(t *testing.T) {
	t.Parallel()
	sh := newShell(t, execServer(t).URL)
	sh.stdin = strings.NewReader("hello\n")
	got := sh.run("workspace", "exec", testWorkspace.Name, "--", "sh", "-c", `read x; echo "$x $1"; echo err >&2; exit 42`,
		"sh", "--flag")
	if want := (outcome{42, "hello --flag\n", "err\n"}); got != want {
		t.Error(got)
	}
	if got := sh.run("workspace", "exec", testWorkspace.Name, "--", "true"); got != (outcome{}) {
		t.Error(got)
	}
	got = sh.run("workspace", "exec", "bogus", "--", "true")
	if got.status != 1 || !strings.Contains(got.stderr, "there is no /workspaces/bogus") {
		t.Error(got)
	}
}

func TestClaimExecReleases(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		command string
		status  int
	}{"success": {"echo in", 0}, "failure": {"echo in; exit 9", 9}, "looks like a miss": {"echo in; exit 3", 3}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := execServer(t)
			got := newShell(t, server.URL).run("claim", "quickstart/default", "--exec", "--", "sh", "-c", test.command)
			if want := (outcome{test.status, "in\n", ""}); got != want {
				t.Error(got)
			}
			if !released(server) {
				t.Error("the workspace was not released")
			}
		})
	}
}

func TestClaimExecReleasesWhatCouldNotRun(t *testing.T) {
	t.Parallel()
	server := execServer(t)
	got := newShell(t, server.URL).run("claim", "quickstart/default", "--exec", "--", "/nowhere")
	if got.status != 1 || !strings.Contains(got.stderr, "/nowhere") || !released(server) {
		t.Errorf("released %v: %s", released(server), got)
	}
}

func TestClaimExecKeep(t *testing.T) {
	t.Parallel()
	server := execServer(t)
	got := newShell(t, server.URL).run("claim", "quickstart/default", "--exec", "--keep", "--", "true")
	if got.status != 0 || released(server) || !strings.Contains(got.stderr, "prewarm workspace release") {
		t.Error(got)
	}
}

// A command that succeeded is no success if its workspace could not be given back.
func TestClaimExecThatCannotRelease(t *testing.T) {
	t.Parallel()
	server := execServer(t)
	server.answer("POST /workspaces/"+testWorkspace.Name+"/release", answer{status: 500, body: `{"detail":"no database"}`})
	got := newShell(t, server.URL).run("claim", "quickstart/default", "--exec", "--", "true")
	want := "release workspace " + testWorkspace.Name + " (try \"prewarm workspace release " + testWorkspace.Name + "\"): no database"
	if got.status != 1 || !strings.Contains(got.stderr, want) {
		t.Error(got)
	}
}

// Ctrl-C on a real process ends the command, and the workspace is still released.
func TestInterruptedClaimExecReleases(t *testing.T) {
	t.Parallel()
	server := execServer(t)
	cmd := exec.Command(os.Args[0], "claim", "quickstart/default", "--exec", "--", "sh", "-c", "echo started; sleep 60")
	cmd.Env = []string{runsMain + "=1", "PREWARM_URL=" + server.URL, "PREWARM_TOKEN=pw_x", "HOME=" + t.TempDir()}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	guard := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer guard.Stop()
	if line, err := io.ReadAll(io.LimitReader(stdout, 8)); err != nil || string(line) != "started\n" {
		t.Fatalf("got %q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 130 || !released(server) ||
		!strings.HasPrefix(stderr.String(), "prewarm: interrupted\n") {
		t.Errorf("ended with %v, released %v: %s", cmd.ProcessState, released(server), &stderr)
	}
}

// On a terminal the command gets one: its size, its kind, and the keys as they are typed.
func TestWorkspaceExecOnATerminal(t *testing.T) {
	t.Parallel()
	ours, theirs, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = ours.Close(), theirs.Close() }()
	if err := pty.Setsize(theirs, &pty.Winsize{Rows: 33, Cols: 101}); err != nil {
		t.Fatal(err)
	}
	sh := newShell(t, execServer(t).URL)
	sh.env = append(sh.env, "TERM=xterm")
	sh.stdin = theirs
	done := make(chan int, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		done <- sh.app(theirs, io.Discard).run(ctx, []string{
			"workspace", "exec", testWorkspace.Name, "--", "sh", "-c", `stty size; echo "$TERM"; read x; echo "<$x>"; exit 5`,
		})
	}()
	screen := readUntil(t, ours, "xterm")
	if _, err := io.WriteString(ours, "typed\r"); err != nil {
		t.Fatal(err)
	}
	screen += readUntil(t, ours, "<typed>")
	if status := <-done; status != 5 || !strings.Contains(screen, "33 101") {
		t.Errorf("status %d, screen %q", status, screen)
	}
}

// readUntil reads what appears on a terminal until text is on it.
func readUntil(t *testing.T, terminal *os.File, text string) string {
	t.Helper()
	guard := time.AfterFunc(patience, func() { _ = terminal.Close() })
	defer guard.Stop()
	var screen []byte
	buffer := make([]byte, 4096)
	for !strings.Contains(string(screen), text) {
		n, err := terminal.Read(buffer)
		if err != nil {
			t.Fatalf("waiting for %q on %q: %v", text, screen, err)
		}
		screen = append(screen, buffer[:n]...)
	}
	return string(screen)
}

package sdk_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/coder/websocket"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

type runFunc = func(context.Context, sdk.ExecSession) (int, error)

// execServer serves commands with run. What ServeExec returns is sent on served.
func execServer(t *testing.T, clock quartz.Clock, run runFunc) (client *sdk.Client, served chan error) {
	t.Helper()
	served = make(chan error, 1)
	client = newClient(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/workspaces/w/exec" || r.Header.Get("Authorization") != "Bearer pw_secret" {
			t.Errorf("asked for %s with authorization %q", r.URL, r.Header.Get("Authorization"))
		}
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Errorf("accept: %v", err)
			return
		}
		served <- sdk.ServeExec(r.Context(), clock, conn, run)
	})
	return client, served
}

// process runs the command as a real process, as a provider would.
func process(ctx context.Context, s sdk.ExecSession) (int, error) {
	cmd := exec.CommandContext(ctx, s.Command[0], s.Command[1:]...)
	for k, v := range s.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return 0, err
	}
	cmd.Stdout, cmd.Stderr = s.Stdout, s.Stderr
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		_, _ = io.Copy(stdin, s.Stdin)
		_ = stdin.Close()
	}()
	err = cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

func sh(script string) sdk.ExecStart {
	return sdk.ExecStart{Command: []string{"/bin/sh", "-c", script}}
}

func TestExecRoundTrip(t *testing.T) {
	t.Parallel()
	client, served := execServer(t, quartz.NewReal(), process)
	start := sh(`read line; echo "out $line $NAME"; echo "err $line" >&2; exit 7`)
	start.Env = map[string]string{"NAME": "it's"}
	var stdout, stderr bytes.Buffer
	status, err := client.Exec(testContext(t), "w", sdk.ExecRequest{
		ExecStart: start, Stdin: strings.NewReader("hello\n"), Stdout: &stdout, Stderr: &stderr,
	})
	if err != nil || status != 7 {
		t.Fatalf("status %d, %v", status, err)
	}
	if stdout.String() != "out hello it's\n" || stderr.String() != "err hello\n" {
		t.Errorf("stdout %q, stderr %q", &stdout, &stderr)
	}
	if err := <-served; err != nil {
		t.Errorf("the server says %v", err)
	}
}

// Eight megabytes go through cat and come back the same, although each side reads only as fast as the other writes.
func TestExecCarriesEveryByte(t *testing.T) {
	t.Parallel()
	client, _ := execServer(t, quartz.NewReal(), process)
	sent := make([]byte, 8<<20)
	for i := range sent {
		sent[i] = byte(i * 2654435761 >> 7)
	}
	got := sha256.New()
	status, err := client.Exec(testContext(t), "w", sdk.ExecRequest{
		ExecStart: sdk.ExecStart{Command: []string{"cat"}}, Stdin: bytes.NewReader(sent), Stdout: got,
	})
	if err != nil || status != 0 {
		t.Fatalf("status %d, %v", status, err)
	}
	if want := sha256.Sum256(sent); !bytes.Equal(got.Sum(nil), want[:]) {
		t.Error("the bytes that came back are not those that were sent")
	}
}

// A command that ends without reading its input ends the session, even though the client has far more to send.
func TestExecOfCommandThatDoesNotRead(t *testing.T) {
	t.Parallel()
	var input io.Reader
	client, served := execServer(t, quartz.NewReal(), func(ctx context.Context, s sdk.ExecSession) (int, error) {
		input = s.Stdin
		return process(ctx, s)
	})
	status, err := client.Exec(testContext(t), "w", sdk.ExecRequest{ExecStart: sh("exit 3"), Stdin: &endlessReader{}})
	if err != nil || status != 3 {
		t.Fatalf("status %d, %v", status, err)
	}
	if err := <-served; err != nil {
		t.Errorf("the server says %v", err)
	}
	if _, err := input.Read(make([]byte, 1)); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("its input goes on: %v", err)
	}
}

type endlessReader struct{}

func (*endlessReader) Read(p []byte) (int, error) { return len(p), nil }

func TestExecWithoutInput(t *testing.T) {
	t.Parallel()
	client, _ := execServer(t, quartz.NewReal(), process)
	status, err := client.Exec(testContext(t), "w", sdk.ExecRequest{ExecStart: sh("cat; exit 4")})
	if err != nil || status != 4 {
		t.Fatalf("status %d, %v", status, err)
	}
}

func TestExecThatCannotRun(t *testing.T) {
	t.Parallel()
	client, _ := execServer(t, quartz.NewReal(), process)
	_, err := client.Exec(testContext(t), "w", sdk.ExecRequest{ExecStart: sdk.ExecStart{Command: []string{"/nowhere"}}})
	if err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Fatalf("got %v", err)
	}
}

func TestExecRefused(t *testing.T) {
	t.Parallel()
	client := newClient(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusNotImplemented)
		_, _ = io.WriteString(w, `{"detail":"provider sim cannot run commands"}`)
	})
	_, err := client.Exec(testContext(t), "w", sdk.ExecRequest{ExecStart: sh("true")})
	if sdk.StatusOf(err) != http.StatusNotImplemented || err.Error() != "provider sim cannot run commands" {
		t.Fatalf("got %v", err)
	}
}

// The size at the start comes first, then each change.
func TestExecResize(t *testing.T) {
	t.Parallel()
	resize := make(chan sdk.WindowSize, 1)
	var sizes []sdk.WindowSize
	client, _ := execServer(t, quartz.NewReal(), func(ctx context.Context, s sdk.ExecSession) (int, error) {
		for range 2 {
			select {
			case size := <-s.Resize:
				sizes = append(sizes, size)
				resize <- sdk.WindowSize{Rows: 50, Cols: 132} // the user changes the window
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		return 0, nil
	})
	start := sh("true")
	start.TTY, start.Rows, start.Cols = true, 24, 80
	_, err := client.Exec(testContext(t), "w", sdk.ExecRequest{
		ExecStart: start, Stdin: blockingReader(t), Resize: resize,
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []sdk.WindowSize{{Rows: 24, Cols: 80}, {Rows: 50, Cols: 132}}; !slices.Equal(sizes, want) {
		t.Errorf("got %v", sizes)
	}
}

// The command ends when its client is gone, whatever either was doing.
func TestExecEndsWithItsClient(t *testing.T) {
	t.Parallel()
	started := make(chan struct{}, 1)
	client, served := execServer(t, quartz.NewReal(), func(ctx context.Context, _ sdk.ExecSession) (int, error) {
		started <- struct{}{}
		<-ctx.Done()
		return 0, ctx.Err()
	})
	ctx, cancel := context.WithCancel(testContext(t))
	done := make(chan error, 1)
	go func() {
		_, err := client.Exec(ctx, "w", sdk.ExecRequest{ExecStart: sh("true"), Stdin: blockingReader(t)})
		done <- err
	}()
	<-started
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the client says %v", err)
	}
	if err := <-served; err == nil {
		t.Error("the server did not notice that its client was gone")
	}
}

// A client that vanishes while its input holds up the connection is noticed by the ping.
func TestExecPingsAClientThatIsHeldUp(t *testing.T) {
	t.Parallel()
	clock := quartz.NewMock(t)
	trap := clock.Trap().TickerFunc("exec", "ping")
	defer trap.Close()
	started := make(chan struct{}, 1)
	client, served := execServer(t, clock, func(ctx context.Context, _ sdk.ExecSession) (int, error) {
		started <- struct{}{}
		<-ctx.Done()
		return 0, ctx.Err()
	})
	ctx := testContext(t)
	execCtx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = client.Exec(execCtx, "w", sdk.ExecRequest{ExecStart: sh("true"), Stdin: &endlessReader{}})
	}()
	trap.MustWait(ctx).MustRelease(ctx)
	<-started
	cancel()
	<-done
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	for {
		clock.Advance(20 * time.Second).MustWait(ctx)
		select {
		case <-served:
			return
		case <-deadline.C:
			t.Fatal("the command outlives its client")
		default:
		}
	}
}

// A server that stops tells the client why its command ended.
func TestExecEndsWithItsServer(t *testing.T) {
	t.Parallel()
	stopping, stop := context.WithCancel(t.Context())
	client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Errorf("accept: %v", err)
			return
		}
		_ = sdk.ServeExec(stopping, quartz.NewReal(), conn, func(ctx context.Context, _ sdk.ExecSession) (int, error) {
			stop()
			<-ctx.Done()
			return 0, errors.New("the server is stopping")
		})
	})
	_, err := client.Exec(testContext(t), "w", sdk.ExecRequest{ExecStart: sh("true"), Stdin: blockingReader(t)})
	if err == nil || err.Error() != "the server is stopping" {
		t.Fatalf("got %v", err)
	}
}

// A server that dies leaves no status: the client must not take that for success.
func TestExecCutOff(t *testing.T) {
	t.Parallel()
	client := newClient(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err == nil {
			_, _, _ = conn.Read(r.Context())
			_ = conn.CloseNow()
		}
	})
	_, err := client.Exec(testContext(t), "w", sdk.ExecRequest{ExecStart: sh("true")})
	if err == nil || !strings.Contains(err.Error(), "was cut") {
		t.Fatalf("got %v", err)
	}
}

func TestExecRefusesABadStart(t *testing.T) {
	t.Parallel()
	for name, send := range map[string]func(context.Context, *websocket.Conn) error{
		"no command": func(ctx context.Context, c *websocket.Conn) error {
			return c.Write(ctx, websocket.MessageText, []byte(`{"command":[]}`))
		},
		"no JSON": func(ctx context.Context, c *websocket.Conn) error {
			return c.Write(ctx, websocket.MessageText, []byte(`hello`))
		},
		"not text": func(ctx context.Context, c *websocket.Conn) error {
			return c.Write(ctx, websocket.MessageBinary, []byte(`{"command":["true"]}`))
		},
		"too large": func(ctx context.Context, c *websocket.Conn) error {
			return c.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"command":["%s"]}`, strings.Repeat("x", 2<<20)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, served := execServer(t, quartz.NewReal(), func(context.Context, sdk.ExecSession) (int, error) {
				t.Error("a command ran")
				return 0, nil
			})
			ctx := testContext(t)
			conn, _, err := websocket.Dial(ctx, client.URL.JoinPath("/api/v1/workspaces/w/exec").String(),
				&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer pw_secret"}}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.CloseNow() }()
			_ = send(ctx, conn) // what is too large may be cut off
			if _, _, err := conn.Read(ctx); err == nil {
				t.Error("the server answered")
			}
			if err := <-served; err == nil {
				t.Error("the server did not mind")
			}
		})
	}
}

// blockingReader is the input of somebody who types nothing.
func blockingReader(t *testing.T) io.Reader {
	t.Helper()
	r, w := io.Pipe()
	t.Cleanup(func() { _ = w.Close() })
	return r
}

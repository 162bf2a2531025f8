package sdk

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/coder/quartz"
	"github.com/coder/websocket"
	"golang.org/x/xerrors"
)

// The exec protocol, spoken over the WebSocket of GET /workspaces/{ref}/exec.
//
// The client's first message is text: an ExecStart. After it every message is binary, and its first byte says what the
// rest of it is (the stream constants). The server's last message is text again, an execEnd; then it closes normally, or where
// the way to the command was lost with the status that a Stream would have. A connection that ends without an execEnd was cut
// off: the client reports an error, the server kills the command.
//
// A handler of the server accepts the connection after every check that can still answer with an HTTP status, and hands
// it over:
//
//	conn, err := websocket.Accept(w, r, nil)
//	…
//	err = sdk.ServeExec(r.Context(), clock, conn, func(ctx context.Context, s sdk.ExecSession) (int, error) {
//		return execer.Exec(ctx, ref, provider.ExecRequest{
//			Command: s.Command, Env: s.Env, TTY: s.TTY, Stdin: s.Stdin, Stdout: s.Stdout, Stderr: s.Stderr, …
//		})
//	})
//
// ServeExec closes the connection in every case. The client's side is Client.Exec.
const (
	streamStdin    byte = 0
	streamStdout   byte = 1
	streamStderr   byte = 2
	streamStdinEOF byte = 3 // no payload
	streamResize   byte = 4 // payload: WindowSize as JSON
)

const (
	execChunk     = 16 << 10         // bytes of output or input in one message
	execReadLimit = 1 << 20          // bytes of one message; bounds the command line and its environment
	execTimeout   = 10 * time.Second // for the first message to come, and for the last to be sent
	execPing      = 20 * time.Second
)

// ExecStart says what to run, in the workspace's directory and environment plus Env. Rows and Cols are the size of the
// client's terminal, with TTY.
type ExecStart struct {
	Command []string          `json:"command"`
	Env     map[string]string `json:"env,omitempty"`
	TTY     bool              `json:"tty,omitempty"`
	Rows    uint16            `json:"rows,omitempty"`
	Cols    uint16            `json:"cols,omitempty"`
}

// WindowSize is a terminal's size in characters.
type WindowSize struct {
	Rows uint16 `json:"rows"`
	Cols uint16 `json:"cols"`
}

// ExecSession is one command's view of its client.
type ExecSession struct {
	ExecStart
	Stdin  io.Reader // ends with the client's input, which may be long after the command: never wait for it
	Stdout io.Writer
	Stderr io.Writer
	Resize <-chan WindowSize // with TTY: the size at the start, then each change; closed when the client is gone
}

// execEnd is the server's last word: how the command ended, or why it did not run.
type execEnd struct {
	ExitCode *int   `json:"exit_code,omitempty"`
	Error    string `json:"error,omitempty"`
}

// ServeExec speaks the server's side on conn and closes it. It calls run at most once, with a context that ends when
// the client is gone or ctx ends, and tells the client what run returned. The error is for the log: the client sent no
// valid start, or was gone before it could be told; run's own error is not repeated.
//
// Input that the command does not read is not buffered: it holds up the client. While it does, nothing reads from the
// connection, so a ping notices a client that is gone.
func ServeExec(
	ctx context.Context, clock quartz.Clock, conn *websocket.Conn,
	run func(context.Context, ExecSession) (exitCode int, err error),
) error {
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(execReadLimit)
	start, err := readExecStart(ctx, conn)
	if err != nil {
		_ = conn.Close(websocket.StatusInvalidFramePayloadData, "the first message must be a valid start")
		return err
	}

	// The connection outlives ctx by a moment, so that a client is told why its command was ended.
	connCtx := context.WithoutCancel(ctx)
	runCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	stdin, stdinWriter := io.Pipe()
	resize := make(chan WindowSize, 1)
	if start.TTY && start.Rows > 0 && start.Cols > 0 {
		resize <- WindowSize{Rows: start.Rows, Cols: start.Cols}
	}
	gone := make(chan error, 1)
	go func() {
		err := receiveInput(connCtx, conn, stdinWriter, resize)
		gone <- err
		_ = stdinWriter.CloseWithError(err)
		close(resize)
		cancel()
	}()
	clock.TickerFunc(runCtx, execPing, func() error {
		err := ping(connCtx, conn)
		if err != nil {
			cancel()
		}
		return err
	}, "exec", "ping")

	exitCode, err := run(runCtx, ExecSession{
		ExecStart: start,
		Stdin:     stdin,
		Stdout:    &streamWriter{ctx: connCtx, conn: conn, stream: streamStdout, failed: cancel},
		Stderr:    &streamWriter{ctx: connCtx, conn: conn, stream: streamStderr, failed: cancel},
		Resize:    resize,
	})
	_ = stdin.Close()
	select {
	case err := <-gone:
		return err
	default:
	}
	end, code := execEnd{ExitCode: &exitCode}, websocket.StatusNormalClosure
	if err != nil {
		end, code = execEnd{Error: err.Error()}, codeOf(err)
	}
	return finishExec(connCtx, conn, end, code)
}

func readExecStart(ctx context.Context, conn *websocket.Conn) (ExecStart, error) {
	ctx, cancel := context.WithTimeout(ctx, execTimeout)
	defer cancel()
	kind, message, err := conn.Read(ctx)
	if err != nil {
		return ExecStart{}, xerrors.Errorf("read start: %w", err)
	}
	if kind != websocket.MessageText {
		return ExecStart{}, xerrors.New("read start: the first message is not text")
	}
	var start ExecStart
	if err := json.Unmarshal(message, &start); err != nil {
		return ExecStart{}, xerrors.Errorf("decode start: %w", err)
	}
	if len(start.Command) == 0 || start.Command[0] == "" {
		return ExecStart{}, xerrors.New("decode start: no command")
	}
	return start, nil
}

// receiveInput hands on the client's messages until the connection ends. The error is what a reader of stdin sees; once
// the client has ended its input that is io.EOF whatever comes after.
func receiveInput(ctx context.Context, conn *websocket.Conn, stdin *io.PipeWriter, resize chan WindowSize) error {
	for {
		kind, message, err := conn.Read(ctx)
		if err != nil {
			return xerrors.Errorf("read from client: %w", err)
		}
		if kind != websocket.MessageBinary || len(message) == 0 {
			return xerrors.New("read from client: not a message of a stream")
		}
		switch message[0] {
		case streamStdin:
			// An error means that the command has ended or has closed its input: the rest is dropped.
			_, _ = stdin.Write(message[1:])
		case streamStdinEOF:
			_ = stdin.Close()
		case streamResize:
			var size WindowSize
			if json.Unmarshal(message[1:], &size) != nil || size.Rows == 0 || size.Cols == 0 {
				continue
			}
			select { // only the newest size matters
			case <-resize:
			default:
			}
			resize <- size
		default:
			return xerrors.Errorf("read from client: unknown stream %d", message[0])
		}
	}
}

// pongTimeout is longer than the 5 s that the library gives a write: where ctx ends during one, it closes the connection.
const pongTimeout = 10 * time.Second

// ping fails if the connection is broken. An answer that is late is none of its business: the client may be held up, or we.
func ping(ctx context.Context, conn *websocket.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, pongTimeout)
	defer cancel()
	err := conn.Ping(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

func finishExec(ctx context.Context, conn *websocket.Conn, end execEnd, code websocket.StatusCode) error {
	ctx, cancel := context.WithTimeout(ctx, execTimeout)
	defer cancel()
	message, err := json.Marshal(end)
	if err != nil {
		return xerrors.Errorf("encode end: %w", err)
	}
	if err := conn.Write(ctx, websocket.MessageText, message); err != nil {
		return xerrors.Errorf("tell client the end: %w", err)
	}
	// Whether the client says goodbye in turn does not matter.
	_ = conn.Close(code, "")
	return nil
}

// streamWriter sends what is written to it as messages of one stream.
type streamWriter struct {
	ctx    context.Context //nolint:containedctx // An io.Writer has nowhere else to take it from.
	conn   *websocket.Conn
	stream byte
	failed func() // called when the other side cannot be reached; may be nil
}

func (w *streamWriter) Write(p []byte) (int, error) {
	written := 0
	for written < len(p) {
		n := min(len(p)-written, execChunk)
		message := append(make([]byte, 0, n+1), w.stream)
		message = append(message, p[written:written+n]...)
		if err := w.conn.Write(w.ctx, websocket.MessageBinary, message); err != nil {
			if w.failed != nil {
				w.failed()
			}
			return written, xerrors.Errorf("send stream %d: %w", w.stream, err)
		}
		written += n
	}
	return written, nil
}

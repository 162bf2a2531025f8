package sdk

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/coder/websocket"
	"golang.org/x/xerrors"
)

// ExecRequest is a command to run in a workspace, and its streams on this side. Nil streams are empty or dropped; with
// TTY all output comes on Stdout.
type ExecRequest struct {
	ExecStart
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Resize <-chan WindowSize // with TTY: changes of the terminal's size; may be nil
}

// Exec runs a command in a workspace and returns its exit status. Ending ctx kills it. A Read of Stdin may still be
// under way when Exec returns; what it reads is dropped.
func (c *Client) Exec(ctx context.Context, ref string, req ExecRequest) (exitCode int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := c.dial(ctx, "workspaces", ref, "exec")
	if err != nil {
		return 0, err
	}
	return execOn(ctx, conn, req)
}

// execOn speaks the client's side on conn, and closes it.
func execOn(ctx context.Context, conn *websocket.Conn, req ExecRequest) (exitCode int, err error) {
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(execReadLimit)
	start, err := json.Marshal(req.ExecStart)
	if err != nil {
		return 0, xerrors.Errorf("encode start: %w", err)
	}
	if err := conn.Write(ctx, websocket.MessageText, start); err != nil {
		return 0, xerrors.Errorf("send start: %w", err)
	}
	go sendInput(ctx, conn, req.Stdin)
	go sendResizes(ctx, conn, req.Resize)
	return receiveOutput(ctx, conn, req)
}

// dial opens a WebSocket.
func (c *Client) dial(ctx context.Context, path ...string) (*websocket.Conn, error) {
	u, err := c.endpoint(path, nil)
	if err != nil {
		return nil, err
	}
	conn, resp, err := websocket.Dial(ctx, u.String(), &websocket.DialOptions{ //nolint:bodyclose // nothing is left to close
		HTTPClient: c.httpClient(),
		HTTPHeader: c.header(),
	})
	if err != nil && resp != nil && resp.StatusCode >= 300 {
		return nil, readError(resp)
	}
	if err != nil {
		return nil, xerrors.Errorf("call server: %w", err)
	}
	return conn, nil
}

// sendInput copies stdin to the command. Its errors show on the reading side too, which reports them.
func sendInput(ctx context.Context, conn *websocket.Conn, stdin io.Reader) {
	if stdin != nil {
		if _, err := io.Copy(&streamWriter{ctx: ctx, conn: conn, stream: streamStdin}, stdin); err != nil {
			return
		}
	}
	_ = conn.Write(ctx, websocket.MessageBinary, []byte{streamStdinEOF})
}

func sendResizes(ctx context.Context, conn *websocket.Conn, resize <-chan WindowSize) {
	for {
		select {
		case <-ctx.Done():
			return
		case size, ok := <-resize:
			if !ok {
				return
			}
			message, err := json.Marshal(size)
			if err != nil {
				return
			}
			if conn.Write(ctx, websocket.MessageBinary, append([]byte{streamResize}, message...)) != nil {
				return
			}
		}
	}
}

// receiveOutput copies the command's output until its end.
func receiveOutput(ctx context.Context, conn *websocket.Conn, req ExecRequest) (int, error) {
	streams := map[byte]io.Writer{streamStdout: req.Stdout, streamStderr: req.Stderr}
	for {
		kind, message, err := conn.Read(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return 0, ctx.Err()
			}
			return 0, earlyEnd(err, "the connection to the command was cut")
		}
		if kind == websocket.MessageText {
			return endOf(ctx, conn, message)
		}
		if len(message) == 0 {
			continue
		}
		if w := streams[message[0]]; w != nil {
			if _, err := w.Write(message[1:]); err != nil {
				return 0, xerrors.Errorf("write output: %w", err)
			}
		}
	}
}

func endOf(ctx context.Context, conn *websocket.Conn, message []byte) (int, error) {
	var end execEnd
	if err := json.Unmarshal(message, &end); err != nil {
		return 0, xerrors.Errorf("decode end: %w", err)
	}
	if end.ExitCode == nil {
		return 0, refusedBy(ctx, conn, cmp.Or(end.Error, http.StatusText(http.StatusInternalServerError)))
	}
	_ = conn.Close(websocket.StatusNormalClosure, "")
	return *end.ExitCode, nil
}

// refusedBy is the error that the server's last word is. Where the connection was closed with a cause, it is that of a stream.
func refusedBy(ctx context.Context, conn *websocket.Conn, why string) error {
	ctx, cancel := context.WithTimeout(ctx, farewellTimeout)
	defer cancel()
	_, _, err := conn.Read(ctx)
	if closed := (websocket.CloseError{}); errors.As(err, &closed) && closed.Code != websocket.StatusNormalClosure {
		return causeOf(websocket.CloseError{Code: closed.Code, Reason: why})
	}
	return errors.New(why)
}

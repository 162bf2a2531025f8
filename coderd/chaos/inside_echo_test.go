package chaos_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// echo is what a program on a port echoed, over connections that were made again.
type echo struct{ messages, connections, named int }

// echoes sends one message after the other to a program on a port, and wants each back, until ctx ends. A connection that dies
// is made again, and must have said so: what comes is never wrong, and never an end in order.
func (in *inside) echoes(ctx context.Context, name string, port int, e *echo) error {
	u := strings.Replace(in.c.URL.String(), "http", "ws", 1) + fmt.Sprintf("/api/v1/workspaces/%s/ports/%d/http/echo", name, port)
	for ctx.Err() == nil {
		ws, resp, err := websocket.Dial(ctx, u, &websocket.DialOptions{
			HTTPClient: in.c.HTTPClient, HTTPHeader: http.Header{"Authorization": {"Bearer " + in.c.Token}},
		})
		if resp != nil && resp.StatusCode >= 400 && resp.StatusCode < 500 {
			return fmt.Errorf("connect to program: %w", err)
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(pollEvery):
			}
			continue
		}
		e.connections++
		for ctx.Err() == nil {
			sent := binary.BigEndian.AppendUint64(make([]byte, rand.IntN(32<<10)), uint64(e.messages))
			if ws.Write(ctx, websocket.MessageBinary, sent) != nil {
				break
			}
			_, got, err := ws.Read(ctx)
			if err == nil && !bytes.Equal(got, sent) {
				return fmt.Errorf("message %d came back as another", e.messages)
			}
			if err != nil {
				break
			}
			e.messages++
		}
		_ = ws.CloseNow()
	}
	return nil
}

// rawEchoes is echoes over raw streams. Each that dies gives a cause.
func (in *inside) rawEchoes(ctx context.Context, name string, port int, e *echo) error {
	for ctx.Err() == nil {
		stream, err := in.c.DialPort(ctx, name, port)
		if status := sdk.StatusOf(err); status >= 400 && status < 500 {
			return err
		}
		if err != nil {
			select {
			case <-ctx.Done():
			case <-time.After(pollEvery):
			}
			continue
		}
		e.connections++
		stop := context.AfterFunc(ctx, stream.Cut)
		for {
			sent := binary.BigEndian.AppendUint64(make([]byte, 8), uint64(e.messages))
			got := make([]byte, len(sent))
			if _, err = stream.Write(sent); err == nil {
				_, err = io.ReadFull(stream, got)
			}
			if err != nil {
				break
			}
			if !bytes.Equal(got, sent) {
				return fmt.Errorf("raw message %d came back as another", e.messages)
			}
			e.messages++
		}
		stop()
		_, err = stream.Read(make([]byte, 1)) // a write may have failed first
		stream.Cut()
		var closed *sdk.StreamError
		switch {
		case ctx.Err() != nil:
		case errors.As(err, &closed) && closed.Error() != "":
			e.named++
		default:
			return fmt.Errorf("a connection died without a cause: %w", err)
		}
	}
	return nil
}

// serveEchoes is a program on two ports; local workspaces have the machine's.
func serveEchoes(t *testing.T) (web, raw int) {
	t.Helper()
	program := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		defer func() { _ = ws.CloseNow() }()
		ws.SetReadLimit(1 << 20)
		for {
			kind, message, err := ws.Read(r.Context())
			if err != nil || ws.Write(r.Context(), kind, message) != nil {
				return
			}
		}
	}))
	t.Cleanup(program.Close)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn); _ = conn.Close() }()
		}
	}()
	return program.Listener.Addr().(*net.TCPAddr).Port, l.Addr().(*net.TCPAddr).Port
}

package sdk_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/coder/websocket"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// FuzzExec: whatever a client sends, over a real connection, ends; and nothing runs without a command.
func FuzzExec(f *testing.F) {
	f.Add([]byte(`{"command":["cat"],"env":{"A":"b"}}`), []byte("\x00hello"), []byte("\x03"))
	f.Add([]byte(`{"command":["top"],"tty":true,"rows":24,"cols":80}`), []byte("\x04{\"rows\":1,\"cols\":2}"), []byte("\x04{}"))
	f.Add([]byte(`{"command":[""]}`), []byte{}, []byte("\x09"))
	f.Add([]byte(`{"command":null,"rows":-1}`), []byte("\x04null"), []byte("\x00"))
	served := make(chan error, 1)
	var bad string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			served <- err
			return
		}
		served <- sdk.ServeExec(r.Context(), quartz.NewReal(), conn, func(_ context.Context, s sdk.ExecSession) (int, error) {
			if len(s.Command) == 0 || s.Command[0] == "" {
				bad = "a command ran that has no name"
			}
			_, err := io.Copy(s.Stdout, s.Stdin)
			for size := range s.Resize {
				if size.Rows == 0 || size.Cols == 0 {
					bad = "a terminal without a size"
				}
			}
			return 0, err
		})
	}))
	f.Cleanup(server.Close)
	f.Fuzz(func(t *testing.T, start, first, second []byte) {
		bad = ""
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		conn, _, err := websocket.Dial(ctx, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Write(ctx, websocket.MessageText, start) // it may be refused before the rest is sent
		for _, message := range [][]byte{first, second} {
			_ = conn.Write(ctx, websocket.MessageBinary, message)
		}
		_ = conn.CloseNow()
		select {
		case <-served:
		case <-ctx.Done():
			t.Fatal("it goes on without its client")
		}
		if bad != "" {
			t.Fatal(bad)
		}
	})
}

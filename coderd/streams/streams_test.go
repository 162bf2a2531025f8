package streams_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/streams"
)

// sizes notes what is written at once.
type sizes struct {
	net.Conn
	mu   sync.Mutex
	seen []int
}

func (s *sizes) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, len(p))
	return s.Conn.Write(p)
}

// A little data is one message with its header, and much data is not copied. Both come as they went.
func TestFramesAreWhole(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	noted := &sizes{Conn: here}
	inside, err := streams.Accept(there)
	require.NoError(t, err)
	defer inside.Close()
	outside, err := streams.Open(noted)
	require.NoError(t, err)
	defer outside.Close()

	stream, err := outside.OpenStream()
	require.NoError(t, err)
	other, err := inside.AcceptStream()
	require.NoError(t, err)
	const header = 12
	for _, size := range []int{1, header, 1000, 100_000} {
		sent := bytes.Repeat([]byte{0}, size) // a header of no data would look like this
		sent[size-1] = 1
		_, err = stream.Write(sent)
		require.NoError(t, err)
		got := make([]byte, size)
		_, err = io.ReadFull(other, got)
		require.NoError(t, err)
		require.Equal(t, sent, got)
	}
	noted.mu.Lock()
	defer noted.mu.Unlock()
	require.Subset(t, noted.seen, []int{1 + header, 2 * header, 1000 + header, header, 100_000})
}

// BenchmarkRequest is a request of HTTP through a tunnel, on a stream of its own and on one that is kept.
func BenchmarkRequest(b *testing.B) {
	sessions := make(chan *streams.Session, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		s, err := streams.Open(streams.Conn(r.Context(), ws))
		if err == nil {
			sessions <- s
			<-s.CloseChan()
		}
	}))
	defer server.Close()
	ws, _, err := websocket.Dial(b.Context(), server.URL, nil)
	require.NoError(b, err)
	inside, err := streams.Accept(streams.Conn(context.WithoutCancel(b.Context()), ws))
	require.NoError(b, err)
	defer inside.Close()
	go func() {
		_ = http.Serve(inside, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	}()
	outside := <-sessions
	for name, fresh := range map[string]bool{"fresh": true, "kept": false} {
		b.Run(name, func(b *testing.B) {
			client := http.Client{Transport: &http.Transport{
				DialContext:       func(context.Context, string, string) (net.Conn, error) { return outside.OpenStream() },
				DisableKeepAlives: fresh,
			}}
			defer client.CloseIdleConnections()
			for b.Loop() {
				resp, err := client.Get("http://inside/")
				require.NoError(b, err)
				_, err = io.Copy(io.Discard, resp.Body)
				require.NoError(b, err)
				_ = resp.Body.Close()
			}
		})
	}
}

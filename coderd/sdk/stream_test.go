package sdk_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/quartz"
	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// shortened is a connection that is cut after so many bytes that come after the header of the answer.
type shortened struct {
	net.Conn
	left   int
	header []byte
}

func (c *shortened) Read(p []byte) (int, error) {
	if !bytes.HasSuffix(c.header, []byte("\r\n\r\n")) {
		n, err := c.Conn.Read(p[:1])
		c.header = append(c.header, p[:n]...)
		return n, err
	}
	if c.left == 0 {
		_ = c.Close()
		return 0, io.EOF
	}
	n, err := c.Conn.Read(p[:min(len(p), c.left)])
	c.left -= n
	return n, err
}

// Wherever a connection is cut, what was read is as it was sent, and only the whole of it has an end.
func TestStream_cutAnywhere(t *testing.T) {
	t.Parallel()
	const sent, whole = "hello world", 2 + 5 + 2 + 6 + 2 + 3 // three frames, each with two bytes of header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		stream := sdk.NewStream(context.WithoutCancel(r.Context()), quartz.NewReal(), ws)
		defer stream.Cut()
		_, _ = io.WriteString(stream, sent[:5])
		_, _ = io.WriteString(stream, sent[5:])
		_ = stream.CloseWrite()
		_, _ = io.Copy(io.Discard, stream) // until the client has gone
	}))
	t.Cleanup(s.Close)
	for left := range whole + 1 {
		client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, address)
			return &shortened{Conn: conn, left: left}, err
		}}}
		stream, err := sdk.DialStream(t.Context(), quartz.NewReal(), client, s.URL, nil)
		require.NoError(t, err)
		got, err := io.ReadAll(stream)
		require.Equal(t, sent[:len(got)], string(got))
		if left < whole {
			require.Error(t, err, "%d bytes", left)
		} else {
			require.NoError(t, err)
			require.Equal(t, sent, string(got))
		}
		stream.Cut()
	}
}

// A close says why, to who reads and to who writes.
func TestStream_cause(t *testing.T) {
	t.Parallel()
	for status, is := range map[websocket.StatusCode]error{sdk.StatusClaimEnded: sdk.ErrClaimEnded, websocket.StatusBadGateway: nil} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, nil)
			if err == nil {
				sdk.NewStream(context.WithoutCancel(r.Context()), quartz.NewReal(), ws).CloseWith(status, "the cause")
			}
		}))
		t.Cleanup(s.Close)
		stream, err := sdk.DialStream(t.Context(), quartz.NewReal(), s.Client(), s.URL, nil)
		require.NoError(t, err)
		_, err = stream.Read(make([]byte, 1))
		require.ErrorContains(t, err, "the cause")
		if is != nil {
			require.ErrorIs(t, err, is)
		}
		_, err = stream.Write([]byte("x"))
		require.ErrorContains(t, err, "the cause")
		require.NoError(t, stream.Close())
		_, err = stream.Write([]byte("x"))
		require.ErrorIs(t, err, net.ErrClosed)
	}
}

// pipes is a listener whose connections have no buffer, so that a write waits for its reader.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if conn, ok := <-p; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}

func (p pipes) Close() error { return nil }

func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

func (p pipes) dial(context.Context, string, string) (net.Conn, error) {
	here, there := net.Pipe()
	p <- there
	return here, nil
}

// A ping that takes long to be written, since one side or the machine is held up, ends no stream.
func TestStream_slowPing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := make(pipes)
		pinged := make(chan error, 1)
		s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			stream := sdk.NewStream(context.WithoutCancel(r.Context()), quartz.NewReal(), ws)
			defer stream.Cut()
			go func() { _, _ = io.Copy(io.Discard, stream) }() // it answers pings, and hears of answers
			pinged <- stream.Ping()
			_, _ = io.WriteString(stream, "x")
			_ = stream.CloseWrite()
			time.Sleep(time.Minute)
		})}
		go func() { _ = s.Serve(listener) }()
		client := &http.Client{Transport: &http.Transport{DialContext: listener.dial}}
		stream, err := sdk.DialStream(t.Context(), quartz.NewReal(), client, "http://pipe/", nil)
		require.NoError(t, err)
		time.Sleep(4 * time.Second) // until then nothing takes the ping
		got, err := io.ReadAll(stream)
		require.NoError(t, err)
		require.Equal(t, "x", string(got))
		require.NoError(t, <-pinged)
		stream.Cut()
		time.Sleep(time.Minute)
		close(listener)
		require.NoError(t, s.Close())
	})
}

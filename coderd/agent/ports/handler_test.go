package ports_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"cdr.dev/slog/sloggers/slogtest"
	"github.com/coder/quartz"
	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/prewarm-dev/prewarm/coderd/agent/ports"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// serve is the agent's end.
func serve(t *testing.T) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(ports.Handler(t.Context(), ports.Options{Clock: quartz.NewReal(), Log: slogtest.Make(t, nil)}))
	t.Cleanup(s.Close)
	return s
}

// hold binds a free port of 127.0.0.1 until the test ends, and does not listen. The test listens on that port of another address:
// if another program listened on it at 127.0.0.1, the agent would connect to that program, as it tries 127.0.0.1 first.
func hold(t *testing.T) int {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = unix.Close(fd) })
	unix.CloseOnExec(fd)
	require.NoError(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	name, err := unix.Getsockname(fd)
	require.NoError(t, err)
	return name.(*unix.SockaddrInet4).Port
}

// listen serves each connection to a free port of host, and returns the port. No other program listens on it at 127.0.0.1.
func listen(t *testing.T, host string, serve func(*net.TCPConn)) int {
	t.Helper()
	port := 0
	if host != "127.0.0.1" && host != "::" {
		port = hold(t)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer conn.Close(); serve(conn.(*net.TCPConn)) }()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

func connect(t *testing.T, s *httptest.Server, port int) (*sdk.Stream, error) {
	t.Helper()
	stream, err := sdk.DialStream(t.Context(), quartz.NewReal(), s.Client(), s.URL+"/ports/"+strconv.Itoa(port)+"/connect", nil)
	if err == nil {
		t.Cleanup(stream.Cut)
	}
	return stream, err
}

// Bytes come back as they were sent, of any number. The program answers only after the end of what it reads, so a half-closed
// connection stays one.
func TestConnect_halfClose(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for name, host := range map[string]string{"IPv4": "127.0.0.1", "IPv6": "::1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := listen(t, host, func(c *net.TCPConn) {
				all, _ := io.ReadAll(c)
				_, _ = c.Write(all)
			})
			for _, size := range []int{0, 1, 64 << 10, 16<<20 + 1} {
				stream, err := connect(t, s, port)
				require.NoError(t, err)
				want := make([]byte, size)
				_, _ = rand.Read(want)
				_, err = stream.Write(want)
				require.NoError(t, err)
				require.NoError(t, stream.CloseWrite())
				got, err := io.ReadAll(stream)
				require.NoError(t, err)
				require.True(t, bytes.Equal(want, got), "%d of %d bytes", len(got), size)
				require.NoError(t, stream.Close())
			}
		})
	}
}

// A connection that is cut on one side is cut on the other, and never looks like an end.
func TestConnect_cut(t *testing.T) {
	t.Parallel()
	s := serve(t)
	read := make(chan error, 1)
	port := listen(t, "127.0.0.1", func(c *net.TCPConn) {
		_, err := io.ReadAll(c)
		read <- err
	})
	stream, err := connect(t, s, port)
	require.NoError(t, err)
	_, err = stream.Write([]byte("x"))
	require.NoError(t, err)
	stream.Cut()
	require.Error(t, <-read)

	reset := listen(t, "127.0.0.1", func(c *net.TCPConn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		_ = c.SetLinger(0)
	})
	stream, err = connect(t, s, reset)
	require.NoError(t, err)
	_, err = stream.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadAll(stream)
	require.Equal(t, websocket.StatusBadGateway, websocket.CloseStatus(err), "%v", err)
	require.ErrorContains(t, err, "port "+strconv.Itoa(reset))
}

// What listens is listed with the process, in IPv4 and IPv6; what cannot be connected to is not.
func TestList(t *testing.T) {
	t.Parallel()
	s := serve(t)
	comm, err := os.ReadFile("/proc/self/comm")
	require.NoError(t, err)
	nothing := func(*net.TCPConn) {}
	v4, v6, elsewhere := listen(t, "127.0.0.1", nothing), listen(t, "::", nothing), listen(t, "127.0.0.2", nothing)
	resp, err := s.Client().Get(s.URL + "/ports")
	require.NoError(t, err)
	defer resp.Body.Close()
	var all []sdk.Port
	require.NoError(t, json.NewDecoder(resp.Body).Decode(&all))
	for _, port := range []int{v4, v6} {
		require.Contains(t, all, sdk.Port{Port: port, PID: os.Getpid(), Process: strings.TrimSpace(string(comm))})
		_, err = connect(t, s, port)
		require.NoError(t, err)
	}
	require.True(t, slices.IsSortedFunc(all, func(a, b sdk.Port) int { return a.Port - b.Port }))
	require.False(t, slices.ContainsFunc(all, func(p sdk.Port) bool { return p.Port == elsewhere }))
}

// What cannot be connected to is refused with a status, and the port is named.
func TestConnect_refused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	free := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	_, err = connect(t, s, free)
	require.Equal(t, http.StatusBadGateway, sdk.StatusOf(err), "%v", err)
	require.ErrorContains(t, err, "nothing listens on port "+strconv.Itoa(free))
	for _, wrong := range []int{0, -1, 65536} {
		_, err = connect(t, s, wrong)
		require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err), "%v", err)
	}
}

// A client that does not read holds up the program, and little is kept for it.
func TestConnect_slowReader(t *testing.T) {
	t.Parallel()
	const all, most = 256 << 20, 64 << 20 // the buffers of the system have room for less
	s := serve(t)
	stuck := make(chan int64, 1)
	port := listen(t, "127.0.0.1", func(c *net.TCPConn) {
		n := int64(0)
		for err := error(nil); err == nil && n < all; { // until a write is held up
			_ = c.SetWriteDeadline(time.Now().Add(time.Second))
			var written int64
			written, err = io.CopyN(c, zeros{}, 64<<10)
			n += written
		}
		stuck <- n
		_ = c.SetWriteDeadline(time.Time{})
		_, _ = io.CopyN(c, zeros{}, all-n)
	})
	stream, err := connect(t, s, port)
	require.NoError(t, err)
	require.Less(t, <-stuck, int64(most))
	n, err := io.Copy(io.Discard, stream)
	require.NoError(t, err)
	require.EqualValues(t, all, n)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

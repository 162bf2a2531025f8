package e2e_test

import (
	"bytes"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// listening is a program in a workspace that listens: the workspaces of these tests are processes of this machine.
func listening(t testing.TB, serve func(*net.TCPConn)) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
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

// afterEnd answers with what it read, when that has ended.
func afterEnd(c *net.TCPConn) {
	all, _ := io.ReadAll(c)
	_, _ = c.Write(all)
}

// sentBack sends bytes through a port, and reads the answer to its end.
func sentBack(t *testing.T, c *sdk.Client, name string, port int, want []byte) {
	t.Helper()
	stream, err := c.DialPort(t.Context(), name, port)
	require.NoError(t, err)
	defer stream.Close()
	_, err = stream.Write(want)
	require.NoError(t, err)
	require.NoError(t, stream.CloseWrite())
	got, err := io.ReadAll(stream)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got), "%d of %d bytes", len(got), len(want))
}

// Raw bytes through either of two replicas, with an end of each way. With the release a stream ends, and its client gets the cause.
func TestPorts(t *testing.T) {
	t.Parallel()
	servers := fleet(t, 2)
	owner := servers[0].Client
	apply(t.Context(), t, owner, enterable, 1)
	e := enter(t, servers[0].Client, servers[1].Client)
	echo := listening(t, afterEnd)
	for _, c := range e.clients {
		for _, size := range []int{0, 64 << 10, 16 << 20} {
			want := make([]byte, size)
			_, _ = crand.Read(want)
			sentBack(t, c, e.name, echo, want)
		}
	}

	reset := listening(t, func(c *net.TCPConn) { _, _ = io.ReadFull(c, make([]byte, 1)); _ = c.SetLinger(0) })
	stream, err := e.client().DialPort(t.Context(), e.name, reset)
	require.NoError(t, err)
	_, err = stream.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadAll(stream)
	require.ErrorContains(t, err, fmt.Sprintf("port %d: the connection was reset", reset))

	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	free := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	_, err = e.client().DialPort(t.Context(), e.name, free)
	require.Equal(t, http.StatusBadGateway, sdk.StatusOf(err), "%v", err)
	require.ErrorContains(t, err, fmt.Sprintf("nothing listens on port %d", free))
	_, err = e.client().DialPort(t.Context(), e.name, 65536)
	require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err), "%v", err)
	plain := e.request(t.Context(), e.client(), http.MethodGet, fmt.Sprintf("/ports/%d/connect", echo), "")
	require.NoError(t, plain.Body.Close())
	require.Equal(t, http.StatusUpgradeRequired, plain.StatusCode)

	cut := make(chan error, 2)
	open := listening(t, func(c *net.TCPConn) {
		_, _ = c.Write([]byte("x"))
		_, err := io.ReadAll(c)
		cut <- err
	})
	var streams []*sdk.Stream
	for _, c := range e.clients {
		stream, err := c.DialPort(t.Context(), e.name, open)
		require.NoError(t, err)
		defer stream.Close()
		_, err = io.ReadFull(stream, make([]byte, 1))
		require.NoError(t, err)
		streams = append(streams, stream)
	}
	_, err = owner.ReleaseWorkspace(t.Context(), e.name)
	require.NoError(t, err)
	for _, stream := range streams {
		_, err = stream.Read(make([]byte, 1))
		require.ErrorIs(t, err, sdk.ErrClaimEnded)
		require.Error(t, <-cut, "the program must not take it for the end")
	}

	eventually(t, "the sessions in the audit log", func() bool {
		log, err := owner.Audit(t.Context(), sdk.AuditFilter{})
		require.NoError(t, err)
		raw, err := json.Marshal(log)
		require.NoError(t, err)
		of := fmt.Sprintf(`"port":%d`, open)
		return strings.Contains(string(raw), `"kind":"port"`) && strings.Count(string(raw), of) == 4 // two began, and two ended
	})
}

// Nobody but the claim's user connects to its ports, also with a token of the workspace itself; nor does a page of another origin.
func TestPorts_strangers(t *testing.T) {
	t.Parallel()
	servers := fleet(t, 1)
	owner := servers[0].Client
	apply(t.Context(), t, owner, enterable, 1)
	as := func(user, role string) *sdk.Client {
		made, err := owner.CreateToken(t.Context(), sdk.CreateTokenRequest{Name: user, User: user, Role: role})
		require.NoError(t, err)
		c, err := sdk.New(servers[0].URL, made.Secret)
		require.NoError(t, err)
		return c
	}
	alice := as("alice", "member")
	e := enter(t, alice)
	echo := listening(t, afterEnd)
	for name, c := range map[string]*sdk.Client{"another member": as("bob", "member"), "an auditor": as("eve", "auditor"), "the owner": owner} {
		_, err := c.DialPort(t.Context(), e.name, echo)
		require.Contains(t, []int{http.StatusNotFound, http.StatusForbidden}, sdk.StatusOf(err), "%s: %v", name, err)
	}
	sentBack(t, alice, e.name, echo, []byte("mine"))

	stream, err := alice.DialPort(t.Context(), e.name, echo)
	require.NoError(t, err)
	require.NoError(t, owner.RevokeToken(t.Context(), "alice"))
	_, err = stream.Read(make([]byte, 1))
	require.ErrorContains(t, err, "the token is not valid any more")
}

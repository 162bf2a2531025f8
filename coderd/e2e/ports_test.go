package e2e_test

import (
	"bytes"
	crand "crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
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

	list, err := e.client().Ports(t.Context(), e.name)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(list, func(p sdk.Port) bool { return p.Port == echo }), "%v", list)

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
	as := users(t, servers[0].URL, owner)
	alice := as("alice", "member")
	e := enter(t, alice)
	echo := listening(t, afterEnd)
	for name, c := range map[string]*sdk.Client{"another member": as("bob", "member"), "an auditor": as("eve", "auditor"), "the owner": owner} {
		_, err := c.Ports(t.Context(), e.name)
		require.Contains(t, []int{http.StatusNotFound, http.StatusForbidden}, sdk.StatusOf(err), "%s: %v", name, err)
		_, err = c.DialPort(t.Context(), e.name, echo)
		require.Contains(t, []int{http.StatusNotFound, http.StatusForbidden}, sdk.StatusOf(err), "%s: %v", name, err)
		resp := entered{t, nil, e.name}.request(t.Context(), c, http.MethodGet, fmt.Sprintf("/ports/%d/http/", echo), "")
		require.NoError(t, resp.Body.Close())
		require.Contains(t, []int{http.StatusNotFound, http.StatusForbidden}, resp.StatusCode, name)
	}
	sentBack(t, alice, e.name, echo, []byte("mine"))

	stream, err := alice.DialPort(t.Context(), e.name, echo)
	require.NoError(t, err)
	require.NoError(t, owner.RevokeToken(t.Context(), "alice"))
	_, err = stream.Read(make([]byte, 1))
	require.ErrorContains(t, err, "the token is not valid any more")
}

// web is a program in a workspace that speaks HTTP: it says what it was asked, takes bytes, and has a WebSocket.
func web(t testing.TB) int {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/socket":
			ws, err := websocket.Accept(w, r, nil)
			if err != nil {
				return
			}
			defer ws.CloseNow()
			for {
				kind, message, err := ws.Read(r.Context())
				if err != nil || ws.Write(r.Context(), kind, message) != nil {
					return
				}
			}
		case "/take":
			_ = http.NewResponseController(w).EnableFullDuplex()
			_, _ = io.Copy(w, r.Body)
		case "/endless":
			_, _ = io.WriteString(w, "x")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		case "/login":
			w.Header().Add("Set-Cookie", "theirs=1")
			w.Header().Add("Set-Cookie", "__Host-prewarm=stolen; Path=/; Secure")
			w.Header().Set("Clear-Site-Data", "*")
			w.Header().Set("Content-Security-Policy", "default-src *")
			w.Header().Set("Location", "/done?x=1")
			w.WriteHeader(http.StatusSeeOther)
		default:
			_, _ = fmt.Fprintf(w, "%s %s %s", r.Method, r.RequestURI, r.Host)
			for name, values := range r.Header {
				if slices.Contains([]string{"Authorization", "Cookie", "X-Mine", "Forwarded", "X-Forwarded-Host"}, name) || strings.HasPrefix(name, "Prewarm") {
					_, _ = fmt.Fprintf(w, " %s=%s", name, strings.Join(values, ","))
				}
			}
		}
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

// What curl does with a port, through either of two replicas: requests as they are, bytes of any number, a WebSocket, and an end
// with the release.
func TestPorts_http(t *testing.T) {
	t.Parallel()
	servers := fleet(t, 2)
	owner := servers[0].Client
	apply(t.Context(), t, owner, enterable, 1)
	e := enter(t, servers[0].Client, servers[1].Client)
	port := web(t)
	do := func(c *sdk.Client, method, path string, body io.Reader, header http.Header) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, fmt.Sprintf("%s/api/v1/workspaces/%s/ports/%d/http%s", c.URL, e.name, port, path), body)
		require.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+c.Token)
		for name, values := range header {
			req.Header[name] = values
		}
		req.Host = header.Get("Host")
		resp, err := http.DefaultTransport.RoundTrip(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	text := func(resp *http.Response) string {
		t.Helper()
		all, err := io.ReadAll(resp.Body)
		require.NoError(t, err)
		return string(all)
	}
	for _, c := range e.clients {
		resp := do(c, http.MethodDelete, "/a//b/%2e%2e/%2f?x=1;y", nil, http.Header{
			"Host": {"evil.example"}, "X-Forwarded-Host": {"evil.example"}, "Cookie": {"theirs=1"}, "Prewarm-Claim": {"x"}, "Prewarm-Target": {"/x"},
		})
		require.Equal(t, fmt.Sprintf("DELETE /a//b/%%2e%%2e/%%2f?x=1;y localhost:%d Cookie=theirs=1", port), text(resp))
		require.Equal(t, []string{"sandbox"}, resp.Header.Values("Content-Security-Policy"))
		require.Equal(t, []string{"nosniff"}, resp.Header.Values("X-Content-Type-Options"))
		require.Equal(t, http.StatusOK, do(c, http.MethodHead, "/", nil, nil).StatusCode)

		want := make([]byte, 16<<20)
		_, _ = crand.Read(want)
		require.True(t, bytes.Equal(want, []byte(text(do(c, http.MethodPut, "/take", bytes.NewReader(want), nil)))))

		resp = do(c, http.MethodGet, "/login", nil, nil)
		require.Equal(t, fmt.Sprintf("/api/v1/workspaces/%s/ports/%d/http/done?x=1", e.name, port), resp.Header.Get("Location"))
		require.Equal(t, []string{"theirs=1"}, resp.Header.Values("Set-Cookie"))
		require.Equal(t, []string{"sandbox"}, resp.Header.Values("Content-Security-Policy"))
		require.Empty(t, resp.Header.Get("Clear-Site-Data"))

		address := fmt.Sprintf("%s/api/v1/workspaces/%s/ports/%d/http/socket", c.URL, e.name, port)
		ws, _, err := websocket.Dial(t.Context(), address, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + c.Token}}})
		require.NoError(t, err)
		defer ws.CloseNow()
		for i := range 10 {
			require.NoError(t, ws.Write(t.Context(), websocket.MessageText, fmt.Append(nil, i)))
			_, got, err := ws.Read(t.Context())
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(i), string(got))
		}

		// A browser has a session, and gets nowhere with it, nor in addition to a token.
		for _, cookie := range []string{"prewarm=x", "a=b; __Host-prewarm=x", "a\"b,=c; prewarm =x", "prewarm_session=x"} {
			resp = do(c, http.MethodGet, "/", nil, http.Header{"Cookie": {cookie}})
			require.Equal(t, http.StatusForbidden, resp.StatusCode, cookie)
			require.NotContains(t, text(resp), "localhost")
		}
	}

	var endless []*http.Response
	for _, c := range e.clients {
		resp := do(c, http.MethodGet, "/endless", nil, nil)
		_, err := io.ReadFull(resp.Body, make([]byte, 1))
		require.NoError(t, err)
		endless = append(endless, resp)
	}
	_, err := owner.ReleaseWorkspace(t.Context(), e.name)
	require.NoError(t, err)
	for _, resp := range endless {
		_, err := resp.Body.Read(make([]byte, 1))
		require.Error(t, err)
		require.NotErrorIs(t, err, io.EOF)
	}
	gone := do(owner, http.MethodGet, "/", nil, nil)
	require.Contains(t, []int{http.StatusNotFound, http.StatusConflict}, gone.StatusCode)
}

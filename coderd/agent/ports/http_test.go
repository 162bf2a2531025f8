package ports_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// program is an HTTP server in the workspace.
func program(t *testing.T, handler http.HandlerFunc) int {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s.Listener.Addr().(*net.TCPAddr).Port
}

func ask(ctx context.Context, t *testing.T, agent *httptest.Server, port int, method, target string, body io.Reader) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, agent.URL+"/ports/"+strconv.Itoa(port)+"/http", body)
	require.NoError(t, err)
	req.Header.Set(sdk.TargetHeader, target)
	req.Header.Set(sdk.ClaimHeader, "x")
	req.Header.Set("Connection", "X-Hop")
	req.Header.Set("X-Hop", "x")
	resp, err := agent.Client().Do(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// The program gets what was asked as it came, from localhost, and nothing that is between server and agent.
func TestHTTP(t *testing.T) {
	t.Parallel()
	agent := serve(t)
	port := program(t, func(w http.ResponseWriter, r *http.Request) {
		all, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s %s %s %q", r.Method, r.RequestURI, r.Host, all)
		for name := range r.Header {
			if strings.HasPrefix(name, "Prewarm") || strings.HasPrefix(name, "X-") {
				_, _ = fmt.Fprint(w, " ", name)
			}
		}
	})
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete, http.MethodOptions} {
		for _, target := range []string{"/", "/a//b/../c?x=1;y&z=%zz", "/%2e%2e/%2f?", "//elsewhere.example/x", "/processes"} {
			got, err := io.ReadAll(ask(t.Context(), t, agent, port, method, target, strings.NewReader("in")).Body)
			require.NoError(t, err)
			require.Equal(t, fmt.Sprintf("%s %s localhost:%d \"in\"", method, target, port), string(got))
		}
	}
	for _, wrong := range []string{"", "x", "http://elsewhere.example/"} {
		resp := ask(t.Context(), t, agent, port, http.MethodGet, wrong, nil)
		if wrong == "http://elsewhere.example/" { // the address in it counts for nothing
			require.Equal(t, http.StatusOK, resp.StatusCode)
			continue
		}
		require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	}
}

// Bodies and answers are handed on as they come, both at the same time.
func TestHTTP_streams(t *testing.T) {
	t.Parallel()
	agent := serve(t)
	port := program(t, func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		for lines := bufio.NewScanner(r.Body); lines.Scan(); {
			_, _ = fmt.Fprintln(w, strings.ToUpper(lines.Text()))
			_ = http.NewResponseController(w).Flush()
		}
	})
	in, out := io.Pipe()
	go func() { _, _ = io.WriteString(out, "one\n") }()
	resp := ask(t.Context(), t, agent, port, http.MethodPost, "/", in)
	lines := bufio.NewReader(resp.Body)
	for _, next := range []string{"two\n", "three\n", ""} {
		got, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, "ONE\nTWO\nTHREE\n", got)
		_, _ = io.WriteString(out, next)
	}
	_ = out.Close()
	_, err := lines.ReadByte()
	require.ErrorIs(t, err, io.EOF)
}

func TestHTTP_webSocket(t *testing.T) {
	t.Parallel()
	agent := serve(t)
	port := program(t, func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		kind, message, err := ws.Read(r.Context())
		if err == nil {
			_ = ws.Write(r.Context(), kind, message)
		}
		_ = ws.Close(websocket.StatusNormalClosure, "bye")
	})
	ws, _, err := websocket.Dial(t.Context(), agent.URL+"/ports/"+strconv.Itoa(port)+"/http", &websocket.DialOptions{
		HTTPHeader: http.Header{sdk.TargetHeader: {"/socket"}},
	})
	require.NoError(t, err)
	require.NoError(t, ws.Write(t.Context(), websocket.MessageText, []byte("x")))
	_, got, err := ws.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "x", string(got))
	_, _, err = ws.Read(t.Context())
	require.Equal(t, websocket.StatusNormalClosure, websocket.CloseStatus(err), "%v", err)
}

// Where nothing listens, or what listens speaks no HTTP, the answer is a problem that names the port.
func TestHTTP_refused(t *testing.T) {
	t.Parallel()
	agent := serve(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	free := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	resp := ask(t.Context(), t, agent, free, http.MethodGet, "/", nil)
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	require.Equal(t, "application/problem+json", resp.Header.Get("Content-Type"))
	text, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "nothing listens on port "+strconv.Itoa(free))
	mute := listen(t, "127.0.0.1", func(c *net.TCPConn) { _, _ = io.WriteString(c, "220 hello\r\n") })
	resp = ask(t.Context(), t, agent, mute, http.MethodGet, "/", nil)
	require.Equal(t, http.StatusBadGateway, resp.StatusCode)
	text, err = io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.Contains(t, string(text), "port "+strconv.Itoa(mute))
}

package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cdr.dev/slog"
	"cdr.dev/slog/sloggers/sloghuman"
	"github.com/coder/quartz"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/api"
	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/database"
)

func TestHealth(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.call("", http.MethodGet, "/healthz", "")
	require.Equal(t, http.StatusOK, a.status)
	require.JSONEq(t, `{"alive":true,"version":"test"}`, a.body)
	a = w.call("", http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusOK, a.status)
	require.JSONEq(t, `{"ready":true,"reasons":[]}`, a.body)
	w.mu.Lock()
	w.unready = []string{"stopping"}
	w.mu.Unlock()
	a = w.call("", http.MethodGet, "/readyz", "")
	require.Equal(t, http.StatusServiceUnavailable, a.status)
	require.JSONEq(t, `{"ready":false,"reasons":["stopping"]}`, a.body)
	require.Equal(t, http.StatusOK, w.call("", http.MethodGet, "/metrics", "").status)
}

// /metrics asks for its own token where it has one, and for no other.
func TestMetricsToken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.url = w.serve(api.Options{MetricsToken: "scrape-me-if-you-can", Log: slog.Make()})
	for token, want := range map[string]int{
		"": 401, "wrong": 401, w.token["owner"]: 401, "scrape-me-if-you-can": 200, "scrape-me-if-you-can2": 401,
	} {
		a := w.call(token, http.MethodGet, "/metrics", "")
		require.Equal(t, want, a.status, token)
		if want == http.StatusUnauthorized {
			require.Contains(t, a.problem(t).Detail, "--metrics-token-file")
		}
	}
	require.Equal(t, http.StatusOK, w.call("", http.MethodGet, "/healthz", "").status)
}

func TestPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, path := range []string{"/", "/docs"} {
		a := w.call("", http.MethodGet, path, "")
		require.Equal(t, http.StatusOK, a.status)
		require.Equal(t, "text/html; charset=utf-8", a.header.Get("Content-Type"))
		require.Regexp(t, `^default-src 'none'; .*style-src 'sha256-[A-Za-z0-9+/=]{44}'$`,
			a.header.Get("Content-Security-Policy"))
		// What is named in the page is on this server.
		for _, link := range regexp.MustCompile(`(?:href|src)="([^"]*)"`).FindAllStringSubmatch(a.body, -1) {
			require.Regexp(t, `^/`, link[1])
			require.Equal(t, http.StatusOK, w.call("", http.MethodGet, link[1], "").status, link[1])
		}
	}
}

func TestUnknownPlaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for path, want := range map[string]int{
		"/nothing": 404, "/api/v1/nothing": 404, "/api/v2/presets": 404, "/api/v1/presets/a/b/c/d": 404,
		"/api/v1/workspaces/..%2f..%2fetc%2fpasswd": 404, "/api/v1/workspaces/%00": 422, "/api/v1/workspaces/%ff": 422,
		"/api/v1/templates/a%2fb": 404,
	} {
		a := w.call(w.token["owner"], http.MethodGet, path, "")
		require.Equal(t, want, a.status, "%s: %s", path, a.body)
		a.problem(t)
	}
	a := w.call(w.token["owner"], http.MethodPut, "/api/v1/pauses", "")
	require.Equal(t, http.StatusMethodNotAllowed, a.status)
	require.Equal(t, "DELETE, GET, POST", a.header.Get("Allow"))
	require.Equal(t, "GET, PUT", w.call(w.token["owner"], http.MethodPost, "/api/v1/quotas", "").header.Get("Allow"))
	a.problem(t)
	for _, name := range []string{"X-Content-Type-Options", "X-Frame-Options", "Referrer-Policy", "Content-Security-Policy", "X-Request-Id"} {
		require.NotEmpty(t, a.header.Get(name), name)
	}
}

func TestBadBodies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.dump()
	for body, want := range map[string]string{
		``:                            "request body is required",
		`{`:                           "unexpected end of JSON input",
		`{"template":3,"preset":"p"}`: "body.template: expected string",
		`{"preset":"p"}`:              "body: expected required property template to be present",
		`{"template":"t","preset":"p","colour":"red"}`: "body.colour: unexpected property",
		`[]`: "body: expected object",
	} {
		a := w.call(w.token["owner"], http.MethodPost, "/api/v1/claims", body)
		require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, a.status, body)
		p := a.problem(t)
		require.Contains(t, p.Error(), want, body)
	}
	require.Equal(t, before, w.dump())
}

// counted counts what is read of an endless body.
type counted struct {
	left int64
	read atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n := min(int64(len(p)), c.left-c.read.Load())
	if n <= 0 {
		return 0, io.EOF
	}
	for i := range p[:n] {
		p[i] = ' '
	}
	c.read.Add(n)
	return int(n), nil
}

// TestBigBody: 50 MB are refused with a problem, whether announced or not, without being read.
func TestBigBody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const size = 50 << 20
	for _, announced := range []bool{true, false} {
		body := &counted{left: size}
		req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, w.url+"/api/v1/apply", body)
		require.NoError(t, err)
		req.ContentLength = -1
		if announced {
			req.ContentLength = size
			req.Header.Set("Expect", "100-continue") // as curl does: the answer comes before the body
		}
		req.Header.Set("Authorization", "Bearer "+w.token["owner"])
		a := w.send(req)
		require.Equal(t, http.StatusRequestEntityTooLarge, a.status)
		a.problem(t)
		require.Less(t, body.read.Load(), int64(size/2), "announced: %t", announced)
	}
	// A client that sends first and listens later is answered too.
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.url, "http://"))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	require.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, "POST /api/v1/apply HTTP/1.1\r\nHost: x\r\nContent-Length: 52428800\r\n\r\n"+strings.Repeat(" ", 64<<10))
	require.NoError(t, err)
	head := make([]byte, 12)
	_, err = io.ReadFull(conn, head)
	require.NoError(t, err)
	require.Equal(t, "HTTP/1.1 413", string(head))
}

// stub is a server whose parts misbehave on purpose.
func (w *world) stub(store *database.Store, claims api.Claimer, log slog.Logger) string {
	o := api.Options{
		Store: store, Auth: auth.NewAuthenticator(store, quartz.NewReal()), Claims: claims, Clock: quartz.NewReal(), Log: log, LogRequests: true,
		Ready: func(context.Context) []string { return nil }, Metrics: promhttp.Handler(),
		Hints: w.hints(),
	}
	return w.listen(api.New(o))
}

// TestDatabaseAway: 503 with a hint when to come back, for the token's lookup as for anything else.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	away, err := database.Open(context.Background(), "postgres://nobody@127.0.0.1:1/nothing", database.Options{})
	require.NoError(t, err)
	t.Cleanup(away.Close)
	w.url = w.stub(away, nil, slog.Make())
	a := w.call(w.token["owner"], http.MethodGet, "/api/v1/presets", "")
	require.Equal(t, http.StatusServiceUnavailable, a.status, a.body)
	require.Equal(t, "1", a.header.Get("Retry-After"))
	require.Contains(t, a.problem(t).Detail, "database cannot be reached")
	require.Equal(t, http.StatusOK, w.call("", http.MethodGet, "/healthz", "").status)
}

type claimFunc func(context.Context, claim.Request) (claim.Result, error)

func (f claimFunc) Claim(ctx context.Context, req claim.Request) (claim.Result, error) {
	return f(ctx, req)
}

// TestPanic: a panic is a problem of its own request, and the log has what the client is not told.
func TestPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log bytes.Buffer
	w.url = w.stub(w.store, claimFunc(func(context.Context, claim.Request) (claim.Result, error) { panic("secret inside") }),
		slog.Make(sloghuman.Sink(&log)))
	body := `{"template":"quickstart","preset":"default"}`
	a := w.call(w.token["owner"], http.MethodPost, "/api/v1/claims", body)
	require.Equal(t, http.StatusInternalServerError, a.status)
	require.Contains(t, a.problem(t).Detail, a.header.Get("X-Request-Id"))
	require.NotContains(t, a.body, "secret inside")
	require.Contains(t, log.String(), "secret inside")
	require.Equal(t, http.StatusOK, w.call(w.token["owner"], http.MethodGet, "/api/v1/whoami", "").status)
}

// TestBackupHasNoTokens: of what opens the API, the database has what checks it, and not the thing itself.
func TestBackupHasNoTokens(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	ws := w.workspace("quickstart", "starting", "prewarm")
	session, instance := w.signIn(w.token["member"], nil).Value, w.instanceToken(ws.ID, 1, 1)
	var tables []string
	require.NoError(t, w.store.Pool.QueryRow(ctx, "SELECT array_agg(tablename::text) FROM pg_tables WHERE schemaname = 'public'").Scan(&tables))
	require.Greater(t, len(tables), 30)
	var all strings.Builder
	for _, table := range tables {
		var rows string
		require.NoError(t, w.store.Pool.QueryRow(ctx, "SELECT coalesce(string_agg(t::text, E'\n'), '') FROM "+table+" t").Scan(&rows))
		all.WriteString(rows)
	}
	for name, secret := range map[string]string{"owner": w.token["owner"], "member": w.token["member"], "session": session, "instance": instance} {
		require.NotContains(t, all.String(), secret, name)
		require.NotContains(t, all.String(), hex.EncodeToString([]byte(secret)), name)
		hash := sha256.Sum256([]byte(secret))
		require.Equal(t, name != "instance", strings.Contains(all.String(), hex.EncodeToString(hash[:])), name)
	}
}

// TestLogHasNoSecrets: neither the tokens that come in, nor the one that goes out, nor queries.
func TestLogHasNoSecrets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var log bytes.Buffer
	w.url = w.stub(w.store, nil, slog.Make(sloghuman.Sink(&log)).Leveled(slog.LevelDebug))
	wrong := auth.NewSecret().Reveal()
	w.call(wrong, http.MethodGet, "/api/v1/presets?token=in-the-query", "")
	a := w.call(w.token["owner"], http.MethodPost, "/api/v1/tokens", `{"name":"x"}`)
	require.Equal(t, http.StatusCreated, a.status)
	made := regexp.MustCompile(`pw_[A-Za-z0-9_-]{43}`).FindString(a.body)
	require.NotEmpty(t, made)
	require.Contains(t, log.String(), "/api/v1/tokens")
	for _, secret := range []string{wrong, made, w.token["owner"], "in-the-query"} {
		require.NotContains(t, log.String(), secret)
	}
	require.NotContains(t, w.dump(), made)
	// An id that a proxy gave is kept where it cannot forge a line.
	for id, kept := range map[string]bool{"proxy-1": true, "a b\tstatus=200": false} {
		req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, w.url+"/healthz", nil)
		require.NoError(t, err)
		req.Header.Set("X-Request-Id", id)
		require.Equal(t, kept, w.send(req).header.Get("X-Request-Id") == id)
	}
}

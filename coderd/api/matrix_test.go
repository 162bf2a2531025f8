package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database"
)

// open are the routes that are no operations of the API, and so ask nobody for a token, with why that is right.
var open = map[string]string{
	"GET /healthz":            "says that the process is alive",
	"GET /readyz":             "says whether to send requests here",
	"GET /metrics":            "current values; with --metrics-token-file it asks for that token (TestMetricsToken)",
	"GET /openapi.json":       "the document of the API",
	"GET /docs":               "the same for people",
	"GET /":                   "the page, which asks the API like anybody",
	"GET /relay":              "replicas prove to be such within the connection (coderd/tunnel.TestRelay_strangers)",
	"POST /webhooks/{entity}": "a forge signs what it delivers, with the entity's secret",
}

// actors ask for everything. Each has a column of the matrix.
var actors = []string{"none", "revoked", "foreign", "member", "auditor", "admin", "owner", "own", "other's"}

// TestMatrix walks the router, and calls each route as each actor. What came of it is testdata/matrix.txt, so that a review
// sees each change: 401 and 403 are refused, 404 of another's workspace is hidden, "yes" is let through to the handler: reading
// for a page of another origin too, which browsers let read nothing of it, and whose streams are refused by the handler. A
// route that is neither an operation of the document nor open above fails.
func TestMatrix(t *testing.T) {
	t.Parallel()
	w, _, _, _ := serveInbox(t) // with webhooks, which are served where there are forges
	documented := map[string]operation{}
	for _, op := range operations(t) {
		documented[op.method+" "+op.path] = op
	}
	routes, ok := w.handler.(chi.Routes)
	require.True(t, ok)
	served := map[string]bool{}
	require.NoError(t, chi.Walk(routes, func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
		served[method+" "+route] = true
		return nil
	}))
	for route := range served {
		_, isOperation := documented[route]
		_, isOpen := open[route]
		require.NotEqual(t, isOperation, isOpen, "%s is served: declare it as an operation, or say in this file why it is open", route)
	}
	for route := range open {
		require.True(t, served[route], "%s is open and not served", route)
	}

	m := w.matrix()
	cells := 0
	var b strings.Builder
	fmt.Fprintf(&b, "%-36s", "")
	for _, actor := range actors {
		fmt.Fprintf(&b, "%-9s", actor)
	}
	for _, op := range operations(t) {
		require.True(t, served[op.method+" "+op.path], "%s is documented and not served", op.id)
		fmt.Fprintf(&b, "\n%-36s", op.id)
		for _, actor := range actors {
			cell := m.cell(t, op, actor)
			if cell != "" {
				cells++
			}
			fmt.Fprintf(&b, "%-9s", cell)
		}
	}
	lines := strings.Split(b.String(), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	golden(t, "matrix.txt", strings.Join(lines, "\n")+"\n")
	require.Greater(t, cells, 600)
}

type matrix struct {
	*world
	revoked, session string
}

func (w *world) matrix() matrix {
	ctx := context.Background()
	_, secret, err := auth.CreateToken(ctx, w.store, w.owner, auth.TokenRequest{Name: "gone", ExpiresIn: time.Hour})
	require.NoError(w.t, err)
	require.NoError(w.t, auth.RevokeToken(ctx, w.store, w.owner, "gone"))
	cookie := w.signIn(w.token["owner"], nil)
	return matrix{w, secret.Reveal(), cookie.Name + "=" + cookie.Value}
}

// cell is what comes of an operation for an actor; empty where it has no such case.
func (m matrix) cell(t *testing.T, op operation, actor string) string {
	t.Helper()
	path, body := op.request()
	header := http.Header{}
	set := func(user string) { header.Set("Authorization", "Bearer "+m.token[user]) }
	hidden := false
	switch actor {
	case "none":
	case "revoked":
		header.Set("Authorization", "Bearer "+m.revoked)
	case "foreign": // an owner's session, used by a page of another origin
		header.Set("Cookie", m.session)
		header.Set("Origin", "https://evil.example")
		header.Set("Sec-Fetch-Site", "cross-site")
	case "own", "other's":
		if !strings.Contains(op.path, "{workspace}") {
			return ""
		}
		user := map[string]string{"own": "member", "other's": "other"}[actor]
		path = strings.Replace(path, "nothing", m.workspace("quickstart", string(database.WorkspaceStateClaimed), user).Name, 1)
		set("member")
		hidden = true
	default:
		set(actor)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, op.method, m.url+path, strings.NewReader(body))
	require.NoError(t, err)
	req.Header = header
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err, "%s as %s", op.id, actor)
	_ = resp.Body.Close() // unread: a stream has no end
	switch code := resp.StatusCode; {
	case code == http.StatusInternalServerError:
		t.Errorf("%s as %s: 500", op.id, actor)
		return "500"
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusNotFound && hidden:
		return fmt.Sprint(code)
	}
	return "yes"
}

package api_test

import (
	"net/http"
	"testing"
	"testing/fstest"

	"cdr.dev/slog"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/api"
	webui "github.com/prewarm-dev/prewarm/site"
)

// The web UI has all paths that nothing else has, but none of the API's: what is not there stays a problem document.
func TestSite(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	get := func(path string) answer {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+path, nil)
		require.NoError(t, err)
		req.Header.Set("Accept", "text/html")
		return w.send(req)
	}
	without := get("/")
	require.Contains(t, without.body, "built without the web UI")
	gone := get("/presets/a/b")
	gone.problem(t)

	pages, err := webui.New(fstest.MapFS{"index.html": &fstest.MapFile{Data: []byte("the web UI")}})
	require.NoError(t, err)
	w.url = w.serve(api.Options{Log: slog.Make(), Site: pages})
	for _, path := range []string{"/", "/presets/a/b", "/workspaces/x?y=z"} {
		a := get(path)
		require.Equal(t, "the web UI", a.body, path)
		require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
		require.Equal(t, "DENY", a.header.Get("X-Frame-Options"))
		require.Equal(t, "same-origin", a.header.Get("Cross-Origin-Resource-Policy"))
		require.Contains(t, a.header.Get("Content-Security-Policy"), "connect-src 'self'")
	}
	for _, path := range []string{"/api/v1/nothing", "/api/nothing", "/assets/gone.js"} {
		a := get(path)
		require.Equal(t, http.StatusNotFound, a.status, path)
		a.problem(t)
	}
	require.Contains(t, get("/docs").body, "Prewarm API")
}

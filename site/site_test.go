package site_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/site"
)

func testFiles() fstest.MapFS {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	return fstest.MapFS{
		".gitkeep":            file(""),
		"index.html":          file("<!doctype html><title>Prewarm, at some length</title>"),
		"index.html.br":       file("brotli"),
		"index.html.gz":       file("gzip"),
		"theme.js":            file("theme"),
		"assets/app-1a2b.js":  file("script"),
		"assets/app-1a2b.css": file("style"),
	}
}

// Pages, files, and what is neither.
func TestServe(t *testing.T) {
	t.Parallel()
	s, err := site.New(testFiles())
	require.NoError(t, err)
	get := func(method, path string, header map[string]string) (*httptest.ResponseRecorder, bool) {
		r := httptest.NewRequest(method, path, nil)
		for name, value := range header {
			r.Header.Set(name, value)
		}
		w := httptest.NewRecorder()
		return w, s.Serve(w, r)
	}
	browser := map[string]string{"Accept": "text/html,*/*", "Accept-Encoding": "gzip, deflate, br, zstd"}
	plain := map[string]string{"Accept": "*/*"}

	// Any path that a browser asks for as a page is the page; the root is whoever asks.
	for _, path := range []string{"/", "/presets/a/b", "/index.html"} {
		w, served := get(http.MethodGet, path, map[string]string{"Accept": "text/html"})
		require.Equal(t, path != "/index.html", served, path)
		if served {
			require.Contains(t, w.Body.String(), "<title>")
			require.Equal(t, "no-cache", w.Header().Get("Cache-Control"))
			require.Equal(t, "text/html; charset=utf-8", w.Header().Get("Content-Type"))
			require.NotContains(t, w.Header().Get("Content-Security-Policy"), "unsafe")
			require.Contains(t, w.Header().Get("Content-Security-Policy"), "script-src 'self'")
		}
	}
	w, served := get(http.MethodGet, "/", plain)
	require.True(t, served)
	require.Contains(t, w.Body.String(), "<title>")
	for _, path := range []string{"/nothing", "/assets/app-0000.js", "/nothing.js", "/.gitkeep", "/assets/../site.go"} {
		_, served := get(http.MethodGet, path, plain)
		require.False(t, served, path)
	}
	_, served = get(http.MethodGet, "/assets/app-0000.js", browser)
	require.False(t, served, "a chunk that is gone is not a page")
	_, served = get(http.MethodPost, "/", browser)
	require.False(t, served)

	// Files whose names carry their hash are kept forever.
	w, served = get(http.MethodGet, "/assets/app-1a2b.js", plain)
	require.True(t, served)
	require.Equal(t, "script", w.Body.String())
	require.Equal(t, "public, max-age=31536000, immutable", w.Header().Get("Cache-Control"))
	require.Equal(t, "text/javascript; charset=utf-8", w.Header().Get("Content-Type"))
	w, _ = get(http.MethodGet, "/theme.js", plain)
	require.Equal(t, "no-cache", w.Header().Get("Cache-Control"))

	// The best encoding that is accepted; each has a tag of its own.
	tags := map[string]bool{}
	for accepted, want := range map[string]string{"gzip, br": "br", "gzip": "gzip", "br;q=0, gzip;q=0.5": "gzip", "zstd": ""} {
		w, _ = get(http.MethodGet, "/", map[string]string{"Accept-Encoding": accepted})
		require.Equal(t, want, w.Header().Get("Content-Encoding"), accepted)
		require.Equal(t, "Accept-Encoding", w.Header().Get("Vary"))
		tags[w.Header().Get("Etag")] = true
		again, _ := get(http.MethodGet, "/", map[string]string{
			"Accept-Encoding": accepted, "If-None-Match": "W/" + w.Header().Get("Etag"),
		})
		require.Equal(t, http.StatusNotModified, again.Code)
		require.Empty(t, again.Body.String())
	}
	require.Len(t, tags, 3)
	w, _ = get(http.MethodHead, "/", browser)
	require.Equal(t, "6", w.Header().Get("Content-Length"))
	require.Empty(t, w.Body.String())
}

// A binary without the UI has none, and serves nothing of it.
func TestWithoutPages(t *testing.T) {
	t.Parallel()
	_, err := site.New(fstest.MapFS{".gitkeep": &fstest.MapFile{}})
	require.ErrorContains(t, err, "no index.html")
	var none *site.Site
	require.False(t, none.Serve(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil)))
	_, err = site.Built()
	require.NoError(t, err)
}

package api //nolint:testpackage // What is tested is pure, and has no way in from outside.

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"
)

func TestCutTarget(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/": "/", "/a//b/../c?x=1;y&z=%zz": "/a//b/../c?x=1;y&z=%zz", "/%2e%2f?": "/%2e%2f?", "//x/y": "//x/y", "/http/a": "/http/a",
	} {
		u, err := url.ParseRequestURI("/api/v1/workspaces/a%2Fb/ports/80/http" + path)
		require.NoError(t, err)
		before, target := cutTarget(u)
		require.Equal(t, "/api/v1/workspaces/a%2Fb/ports/80/http", before)
		require.Equal(t, want, target)
	}
}

func TestRelocated(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]string{
		"/x?y#z": "/b/x?y#z", "http://localhost:80/x": "/b/x", "http://127.0.0.1:80/": "/b/",
		"": "", "x": "", "http://localhost:81/x": "", "//elsewhere.example/x": "", "https://elsewhere.example/x": "", ":": "",
	} {
		require.Equal(t, want, relocated(location, "/b", 80), location)
	}
}

func TestForeign(t *testing.T) {
	t.Parallel()
	ours := http.Header{"Content-Security-Policy": {"sandbox"}, "Cache-Control": {"no-store"}}
	theirs := http.Header{
		"Content-Security-Policy": {"default-src *"}, "Cache-Control": {"max-age=1"}, "Clear-Site-Data": {"*"}, "X-Theirs": {"x"},
		"Set-Cookie": {
			"a=b", "prewarm=x", " __Host-prewarm =x; Secure", "prewarm_session", "prewarmed=1",
			"prewarm-port=x", "__Host-prewarm-port=x", "=prewarm-port=x", "d=x; domain=ws.example.com", "e=x; Domain = .example.com", "domain=x; Path=/",
			"f=x; Domain=3000--X.ws.example.com; Path=/",
		},
	}
	foreign(ours, theirs, "3000--x.ws.example.com")
	require.Equal(t, http.Header{"Content-Security-Policy": {"sandbox"}}, ours)
	require.Equal(t, http.Header{"Cache-Control": {"max-age=1"}, "X-Theirs": {"x"}, "Set-Cookie": {
		"a=b", "prewarmed=1", "domain=x; Path=/", "f=x; Domain=3000--X.ws.example.com; Path=/",
	}}, theirs)
}

// Requests that follow one another are one session, which ends a while after the last of them.
func TestVisits(t *testing.T) {
	t.Parallel()
	clock := quartz.NewMock(t)
	var v visits
	begun, ended := 0, 0
	enter := func() func() {
		return v.enter(clock, visit{port: 80}, func() func(map[string]any) {
			begun++
			return func(map[string]any) { ended++ }
		})
	}
	first, second := enter(), enter()
	first()
	second()
	clock.Advance(visitIdle / 2).MustWait(t.Context())
	third := enter()
	clock.Advance(visitIdle).MustWait(t.Context())
	require.Equal(t, []int{1, 0}, []int{begun, ended})
	third()
	clock.Advance(visitIdle).MustWait(t.Context())
	require.Equal(t, []int{1, 1}, []int{begun, ended})
	enter()
	require.Equal(t, 2, begun)
	require.Len(t, v.open, 1)
}

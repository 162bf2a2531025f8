package api //nolint:testpackage // What is tested is pure, and has no way in from outside.

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// No port has the origin of our pages, or a host above or below it; and without TLS nothing leaves this machine.
func TestNewPortDomain(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ domain, ui, refused, warned string }{
		{domain: "ws.example.net", ui: "https://prewarm.example.com"},
		{domain: "WS.example.net", ui: "https://prewarm.example.com:8443"},
		{domain: "ws.localhost", ui: "http://127.0.0.1:7080"},
		{domain: "localhost", ui: "http://[::1]:7080"},
		{domain: "ws.localhost", ui: "http://prewarm.localhost"},
		{domain: "ws.example.com", ui: "https://prewarm.example.com", warned: "one site, example.com"},
		{domain: "ws.example.co.uk", ui: "https://prewarm.example.co.uk", warned: "example.co.uk"},
		{domain: "ws.co.uk", ui: "https://prewarm.co.uk"},
		{domain: "ws.github.io", ui: "https://prewarm.github.io"},
		{domain: "prewarm.example.com", ui: "https://prewarm.example.com", refused: "same host"},
		{domain: "prewarm.example.com", ui: "https://PREWARM.example.com:8443", refused: "same host"},
		{domain: "ws.prewarm.example.com", ui: "https://prewarm.example.com", refused: "below the other"},
		{domain: "example.com", ui: "https://prewarm.example.com", refused: "below the other"},
		{domain: "ws.localhost", ui: "http://localhost:7080", refused: "below the other"},
		{domain: "ws.example.net", ui: "http://prewarm.example.com", refused: "needs TLS"},
		{domain: "ws.example.net", ui: "http://127.0.0.1:7080", refused: "needs TLS"},
		{domain: "ws.localhost", ui: "http://prewarm.example.com", refused: "needs TLS"},
		{domain: "ws.localhost", ui: "http://192.0.2.1", refused: "needs TLS"},
		{domain: "*.example.net", ui: "https://prewarm.example.com", refused: "no domain"},
		{domain: "ws.example.net:8443", ui: "https://prewarm.example.com", refused: "no domain"},
		{domain: "ws.example.net.", ui: "https://prewarm.example.com", refused: "no domain"},
		{domain: "https://ws.example.net", ui: "https://prewarm.example.com", refused: "no domain"},
		{domain: "127.0.0.1", ui: "https://prewarm.example.com", refused: "no domain"},
	} {
		d, warning, err := NewPortDomain(tc.domain, tc.ui)
		if tc.refused != "" {
			require.ErrorContains(t, err, tc.refused, tc)
			require.Zero(t, d, tc)
			continue
		}
		require.NoError(t, err, tc)
		require.Equal(t, tc.warned != "", warning != "", "%v: %s", tc, warning)
		require.Contains(t, warning, tc.warned)
	}
	d, _, err := NewPortDomain("", "")
	require.NoError(t, err)
	require.False(t, d.has(""))
}

// A host below the domain is never ours, however it is written; one way of writing names a port.
func TestPortDomain_door(t *testing.T) {
	t.Parallel()
	d, _, err := NewPortDomain("ws.example.net", "https://prewarm.example.com:8443")
	require.NoError(t, err)
	for host, want := range map[string]door{
		"3000--w.ws.example.net": {3000, "w"}, "3000--w.ws.example.net:8443": {3000, "w"}, "65535--W.WS.example.NET": {65535, "w"},
		"1--a--b.ws.example.net": {1, "a--b"},
		"0--w.ws.example.net":    {}, "65536--w.ws.example.net": {}, "-1--w.ws.example.net": {}, "+1--w.ws.example.net": {},
		"03000--w.ws.example.net": {}, "3000--.ws.example.net": {}, "--w.ws.example.net": {}, "3000-w.ws.example.net": {},
		"w.ws.example.net": {}, "ws.example.net": {}, "ws.example.net.": {}, ".ws.example.net": {}, "3000--w.ws.example.net.": {},
		"3000--w.x.ws.example.net": {}, "x.3000--w.ws.example.net": {}, "3000--w.ws.example.net.:80": {}, "0x50--w.ws.example.net": {},
	} {
		require.True(t, d.has(host), host)
		got, known := d.door(host)
		require.Equal(t, want, got, host)
		require.Equal(t, want.port != 0, known, host)
	}
	for _, host := range []string{"", "prewarm.example.com", "3000--w.ws.example.net.evil.example", "xws.example.net", "example.net", "[::1]:80"} {
		require.False(t, d.has(host), host)
		_, known := d.door(host)
		require.False(t, known, host)
	}
	require.Equal(t, "https://3000--w.ws.example.net:8443", d.origin(door{3000, "w"}))
	require.Equal(t, "https://prewarm.example.com:8443/workspaces/w/ports/3000?path=%2Fa%3Fb%3Dc%26d", d.page(door{3000, "w"}, "/a?b=c&d"))

	r, err := http.NewRequest(http.MethodGet, "http://3000--w.ws.example.net/healthz", nil)
	require.NoError(t, err)
	require.True(t, Reserved(r))
	require.False(t, d.Reserved(r), "a port has no reserved slots")
}

// What a page of another origin may do at a port, with the user's cookie: be a link to it.
func TestFromElsewhere(t *testing.T) {
	t.Parallel()
	const own = "https://3000--w.ws.example.net"
	for _, tc := range []struct {
		method, site, mode, dest, origin string
		upgrade, elsewhere               bool
	}{
		{site: "same-origin"},
		{site: "none", mode: "navigate", dest: "document"},
		{method: "POST", site: "same-origin", origin: own},
		{},
		{origin: own},
		{method: "POST", origin: own},
		{upgrade: true, origin: own},
		{upgrade: true},
		{site: "cross-site", mode: "navigate", dest: "document"},
		{site: "same-site", mode: "navigate", dest: "document"},
		{site: "cross-site", mode: "navigate", dest: "iframe", elsewhere: true},
		{site: "same-site", mode: "navigate", dest: "iframe", elsewhere: true},
		{method: "POST", site: "cross-site", mode: "navigate", dest: "document", elsewhere: true},
		{site: "same-site", mode: "no-cors", dest: "script", elsewhere: true},
		{site: "same-site", mode: "cors", dest: "empty", elsewhere: true},
		{site: "same-site", elsewhere: true},
		{method: "POST", origin: "https://8080--w.ws.example.net", elsewhere: true},
		{method: "POST", origin: "null", elsewhere: true},
		{upgrade: true, origin: "https://evil.example", elsewhere: true},
		{upgrade: true, origin: "http://3000--w.ws.example.net", elsewhere: true},
		{upgrade: true, site: "same-site", mode: "websocket", elsewhere: true},
	} {
		r, err := http.NewRequest(tc.method, own+"/", nil)
		require.NoError(t, err)
		for name, value := range map[string]string{
			"Sec-Fetch-Site": tc.site, "Sec-Fetch-Mode": tc.mode, "Sec-Fetch-Dest": tc.dest, "Origin": tc.origin,
		} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		if tc.upgrade {
			r.Header.Set("Upgrade", "websocket")
		}
		require.Equal(t, tc.elsewhere, fromElsewhere(r, own), "%+v", tc)
	}
}

// Nothing of ours gets to a program, and what is its own as it was.
func TestWithoutOurs(t *testing.T) {
	t.Parallel()
	h := http.Header{
		"Cookie":        {"a=1; prewarm-port=x;b=\"2\"", "__Host-prewarm-port=x; prewarm=x; __Host-prewarm=x;prewarm_session=x ; c"},
		"Authorization": {"Bearer pw_x", "bearer  pws_x", "Basic dTpw", "Bearer theirs"},
		"Origin":        {"https://3000--w.ws.example.net"},
	}
	withoutOurs(h, "https://3000--w.ws.example.net", 3000)
	require.Equal(t, http.Header{
		"Cookie": {"a=1; b=\"2\"; c"}, "Authorization": {"Basic dTpw", "Bearer theirs"}, "Origin": {"http://localhost:3000"},
	}, h)
	h = http.Header{"Cookie": {"prewarm-port=x"}, "Authorization": {"Bearer pw_x"}, "Origin": {"https://evil.example"}}
	withoutOurs(h, "https://3000--w.ws.example.net", 3000)
	require.Equal(t, http.Header{"Origin": {"https://evil.example"}}, h)
}

func TestSamePlace(t *testing.T) {
	t.Parallel()
	for path, fine := range map[string]bool{
		"": true, "/": true, "/a?b=c": true, "//evil.example/": true, "/\\evil.example": true, // behind an origin they are paths
		"a": false, "@evil.example": false, ".evil.example": false, "https://evil.example/": false, ":80": false, "/\r\nX: y": false,
	} {
		require.Equal(t, fine, samePlace(path), path)
	}
}

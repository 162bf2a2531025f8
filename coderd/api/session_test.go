package api_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
)

// browse sends a request as a browser with that cookie does, from a page of the origin.
func (w *world) browse(cookie, method, path, body string, header http.Header) answer {
	w.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), method, w.url+"/api/v1"+path, strings.NewReader(body))
	require.NoError(w.t, err)
	for name, values := range header {
		req.Header[name] = values
	}
	if cookie != "" {
		req.Header.Set("Cookie", "theme=dark; "+cookie)
	}
	return w.send(req)
}

// signIn returns the cookie that signing in sets.
func (w *world) signIn(token string, header http.Header) *http.Cookie {
	w.t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, w.url+"/api/v1/session", http.NoBody)
	require.NoError(w.t, err)
	for name, values := range header {
		req.Header[name] = values
	}
	req.Header.Set("Authorization", "Bearer "+token)
	a := w.send(req)
	require.Equal(w.t, http.StatusOK, a.status, a.body)
	require.NotContains(w.t, a.body, token, "no script learns the token")
	return w.setCookie(a)
}

func (w *world) setCookie(a answer) *http.Cookie {
	w.t.Helper()
	require.NotEmpty(w.t, a.header.Values("Set-Cookie"))
	cookie, err := http.ParseSetCookie(a.header.Get("Set-Cookie"))
	require.NoError(w.t, err)
	require.Equal(w.t, map[bool]string{true: "__Host-prewarm", false: "prewarm"}[cookie.Secure], cookie.Name)
	require.True(w.t, cookie.HttpOnly)
	require.Equal(w.t, http.SameSiteStrictMode, cookie.SameSite)
	require.Equal(w.t, "/", cookie.Path)
	require.Empty(w.t, cookie.Domain)
	return cookie
}

// A browser signs in with a token, is its user from then on, and signs out; the record says so.
func TestSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cookie := w.signIn(w.token["member"], nil)
	require.False(t, cookie.Secure, "there is no TLS here")
	require.InDelta(t, (30 * 24 * time.Hour).Seconds(), cookie.MaxAge, 60)
	require.NotEqual(t, w.token["member"], cookie.Value)
	tls := http.Header{"X-Forwarded-Proto": {"https"}}
	safe := w.signIn(w.token["member"], tls)
	require.True(t, safe.Secure)
	require.Equal(t, http.StatusOK, w.browse(safe.Name+"="+safe.Value, http.MethodGet, "/whoami", "", tls).status)
	require.Equal(t, http.StatusUnauthorized, w.browse("prewarm="+safe.Value, http.MethodGet, "/whoami", "", tls).status,
		"a neighbour in the domain may have set it")
	session := cookie.Name + "=" + cookie.Value

	who := w.browse(session, http.MethodGet, "/whoami", "", nil)
	require.Equal(t, http.StatusOK, who.status)
	require.Contains(t, who.body, `"user":"member"`)
	require.Equal(t, http.StatusForbidden, w.browse(session, http.MethodGet, "/audit", "", nil).status, "its role decides")
	var logins int
	require.NoError(t, w.store.Pool.QueryRow(context.Background(),
		"SELECT count(*) FROM audit_log WHERE action = 'self.login'").Scan(&logins))
	require.Equal(t, 2, logins)

	// Who signs in must have the token itself, and a wrong one opens nothing.
	own := http.Header{"Origin": {w.url}}
	require.Equal(t, http.StatusUnprocessableEntity, w.browse(session, http.MethodPost, "/session", "", own).status)
	require.Equal(t, http.StatusUnauthorized, w.call(auth.NewSecret().Reveal(), http.MethodPost, "/api/v1/session", "").status)
	// A header decides over the cookie, whatever is in it.
	require.Equal(t, http.StatusUnauthorized,
		w.browse(session, http.MethodGet, "/whoami", "", http.Header{"Authorization": {"Basic eDp5"}}).status)

	out := w.browse(session, http.MethodDelete, "/session", "", own)
	require.Equal(t, http.StatusNoContent, out.status, out.body)
	gone := w.setCookie(out)
	require.Empty(t, gone.Value)
	require.Negative(t, gone.MaxAge)
	require.Equal(t, http.StatusUnauthorized, w.browse("", http.MethodGet, "/whoami", "", nil).status)
	require.Equal(t, http.StatusUnauthorized, w.browse(session, http.MethodGet, "/whoami", "", nil).status, "it has ended, whoever kept it")
	require.Equal(t, http.StatusOK, w.call(w.token["member"], http.MethodGet, "/api/v1/whoami", "").status, "the token goes on")
	// Neither is good for the other, nor for the cookie of the release before, which was the token.
	require.Equal(t, http.StatusUnauthorized, w.call(safe.Value, http.MethodGet, "/api/v1/whoami", "").status)
	for _, name := range []string{"prewarm", "prewarm_session"} {
		require.Equal(t, http.StatusUnauthorized, w.browse(name+"="+w.token["member"], http.MethodGet, "/whoami", "", nil).status)
	}
}

// A session lasts no longer than its token, and a browser whose token has ended forgets it.
func TestSession_endsWithTheToken(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	_, secret, err := auth.CreateToken(ctx, w.store, w.owner, auth.TokenRequest{Name: "short", ExpiresIn: time.Hour})
	require.NoError(t, err)
	cookie := w.signIn(secret.Reveal(), nil)
	require.LessOrEqual(t, cookie.MaxAge, 3600)
	require.Greater(t, cookie.MaxAge, 1800)

	session := cookie.Name + "=" + cookie.Value
	require.NoError(t, auth.RevokeToken(ctx, w.store, w.owner, "short"))
	require.Eventually(t, func() bool {
		a := w.browse(session, http.MethodGet, "/whoami", "", nil)
		return a.status == http.StatusUnauthorized && w.setCookie(a).MaxAge < 0
	}, eventually, poll)
}

// With a session nothing is changed by a page of another origin, nor by who does not say where from; reading, which
// another page cannot do since it is not told the answer, needs no origin.
func TestSession_otherOrigins(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	cookie := w.signIn(w.token["admin"], nil)
	session := cookie.Name + "=" + cookie.Value
	const pause = `{"scope":"provider","target":"roomy","reason":"x"}`
	before := w.dump()
	for name, header := range map[string]http.Header{
		"says nothing":      {},
		"another origin":    {"Origin": {"https://elsewhere.example"}},
		"no origin":         {"Origin": {"null"}},
		"another site":      {"Sec-Fetch-Site": {"cross-site"}, "Origin": {w.url}},
		"a neighbour":       {"Sec-Fetch-Site": {"same-site"}, "Origin": {w.url}},
		"another port here": {"Origin": {"http://127.0.0.1:1"}},
	} {
		header.Set("Content-Type", "application/json")
		for _, request := range [][3]string{
			{http.MethodPost, "/pauses", pause},
			{http.MethodDelete, "/pauses?scope=provider&target=roomy", ""},
			{http.MethodDelete, "/session", ""},
		} {
			a := w.browse(session, request[0], request[1], request[2], header)
			require.Equal(t, http.StatusForbidden, a.status, "%s: %s: %s", name, request, a.body)
			require.Empty(t, a.header.Get("Set-Cookie"))
		}
	}
	require.Equal(t, before, w.dump())
	require.Equal(t, http.StatusOK, w.browse(session, http.MethodGet, "/presets", "", nil).status)

	for _, header := range []http.Header{{"Sec-Fetch-Site": {"same-origin"}}, {"Origin": {w.url}}} {
		header.Set("Content-Type", "application/json")
		a := w.browse(session, http.MethodPost, "/pauses", pause, header)
		require.Less(t, a.status, 300, a.body)
	}
	// Without a cookie nobody is a browser, and the token itself is proof enough.
	require.Less(t, w.call(w.token["admin"], http.MethodDelete, "/api/v1/pauses?scope=provider&target=roomy", "").status, 300)
}

// A page hears events by its session; a page of another origin does not.
func TestSession_events(t *testing.T) {
	t.Parallel()
	w := newWatchedWorld(t)
	cookie := w.signIn(w.token["member"], nil)
	ctx, cancel := context.WithTimeout(context.Background(), hearing)
	defer cancel()
	for origin, want := range map[string]int{"https://elsewhere.example": http.StatusForbidden, w.url: http.StatusSwitchingProtocols} {
		conn, resp, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(w.url, "http")+"/api/v1/events",
			&websocket.DialOptions{HTTPHeader: http.Header{"Cookie": {cookie.Name + "=" + cookie.Value}, "Origin": {origin}}})
		require.NotNil(t, resp, "%s: %v", origin, err)
		require.Equal(t, want, resp.StatusCode)
		if conn != nil {
			_, first, err := conn.Read(ctx)
			require.NoError(t, err)
			require.Contains(t, string(first), `"everything":true`)
			_ = conn.CloseNow()
		}
	}
}

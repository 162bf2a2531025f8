package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const cookieOfPort = "prewarm-port"

// visit is a request as a browser sends it to a host of the workspace domain, which a replica gets.
func visit(t *testing.T, at *sdk.Client, method, host, path string, header http.Header) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, at.URL.String()+path, nil)
	require.NoError(t, err)
	req.Host = host
	for name, values := range header {
		req.Header[name] = values
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

func textOf(t *testing.T, resp *http.Response) string {
	t.Helper()
	all, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	return string(all)
}

func navigation() http.Header {
	return http.Header{"Accept": {"text/html"}, "Sec-Fetch-Mode": {"navigate"}, "Sec-Fetch-Dest": {"document"}, "Sec-Fetch-Site": {"none"}}
}

// open follows a link at a replica, and returns the host it leads to and the cookie that it is given.
func open(t *testing.T, at *sdk.Client, link string) (host string, header http.Header, resp *http.Response) {
	t.Helper()
	u, err := url.Parse(link)
	require.NoError(t, err)
	resp = visit(t, at, http.MethodGet, u.Host, u.RequestURI(), navigation())
	for _, c := range resp.Cookies() {
		if c.Name == cookieOfPort {
			return u.Host, http.Header{"Cookie": {c.Name + "=" + c.Value}}, resp
		}
	}
	return u.Host, nil, resp
}

// inBrowser is one claimed workspace of alice's with a program on a port, which browsers reach at each of two replicas.
type inBrowser struct {
	entered
	servers           []*e2etest.Server
	owner, alice, bob *sdk.Client
	port              int
}

func inABrowser(t *testing.T) inBrowser {
	t.Helper()
	servers := fleet(t, 2, "--workspace-domain", "ws.localhost")
	owner := servers[0].Client
	apply(t.Context(), t, owner, enterable, 2)
	as := users(t, servers[0].URL, owner)
	alice, bob := as("alice", "member"), as("bob", "member")
	e := enter(t, alice)
	e.clients = []*sdk.Client{servers[0].Client, servers[1].Client}
	return inBrowser{e, servers, owner, alice, bob, web(t)}
}

// link opens a new link of a client, and returns what then lets in.
func (b inBrowser) link(c *sdk.Client) (host string, cookie http.Header) {
	b.t.Helper()
	t, _ := b.t.(*testing.T)
	made, err := c.LinkPort(t.Context(), b.name, b.port, "")
	require.NoError(t, err)
	host, cookie, resp := open(t, b.client(), made.URL)
	require.Equal(t, http.StatusSeeOther, resp.StatusCode, textOf(t, resp))
	require.NotEmpty(t, cookie)
	return host, cookie
}

func with(header http.Header, pairs ...string) http.Header {
	all := header.Clone()
	if all == nil {
		all = http.Header{}
	}
	for i := 0; i < len(pairs); i += 2 {
		all.Add(pairs[i], pairs[i+1])
	}
	return all
}

// What a browser does with a port, at either of two replicas: a link that works once, a cookie for the host alone, pages, a
// redirection, a WebSocket; and what is ours stays outside.
func TestPorts_browser(t *testing.T) {
	t.Parallel()
	b := inABrowser(t)
	list, err := b.alice.Ports(t.Context(), b.name)
	require.NoError(t, err)
	origin := ""
	for _, p := range list {
		if p.Port == b.port {
			origin = strings.TrimSuffix(p.URL, "/")
		}
	}
	_, listens, err := net.SplitHostPort(b.alice.URL.Host)
	require.NoError(t, err)
	require.Equal(t, fmt.Sprintf("http://%d--%s.ws.localhost:%s", b.port, b.name, listens), origin)

	made, err := b.alice.LinkPort(t.Context(), b.name, b.port, "/a//b?x=1;y#z")
	require.NoError(t, err)
	require.WithinRange(t, made.ExpiresAt, time.Now(), time.Now().Add(2*time.Minute))
	host, cookie, resp := open(t, b.clients[1], made.URL)
	require.Equal(t, http.StatusSeeOther, resp.StatusCode)
	require.Equal(t, origin+"/a//b?x=1;y#z", resp.Header.Get("Location"))
	require.Equal(t, "no-referrer", resp.Header.Get("Referrer-Policy"))
	set := resp.Header.Get("Set-Cookie")
	for _, attribute := range []string{"Path=/", "HttpOnly", "SameSite=Lax", "Max-Age=43200"} {
		require.Contains(t, set, attribute)
	}
	require.NotContains(t, set, "Domain")
	require.NotContains(t, set, "Secure", "there is no TLS here")
	for _, c := range b.clients {
		_, again, resp := open(t, c, made.URL)
		require.Equal(t, http.StatusForbidden, resp.StatusCode, "it worked once")
		require.Contains(t, textOf(t, resp), "this link is over")
		require.Empty(t, again)
	}

	for _, c := range b.clients {
		header := with(cookie, "Origin", origin, "X-Mine", "1", "Prewarm-Claim", "x", "Prewarm-Target", "/x", "X-Forwarded-Host", "evil.example",
			"Authorization", "Bearer "+b.alice.Token)
		header.Set("Cookie", "theirs=1; prewarm=session; "+cookie.Get("Cookie")+"; __Host-prewarm=session")
		resp := visit(t, c, http.MethodGet, strings.ToUpper(host), "/a//b/%2e%2e/%2f?x=1;y", header)
		got := textOf(t, resp)
		require.Contains(t, got, fmt.Sprintf("GET /a//b/%%2e%%2e/%%2f?x=1;y localhost:%d", b.port))
		require.Contains(t, got, " Cookie=theirs=1")
		require.Contains(t, got, " X-Mine=1")
		for _, ours := range []string{"Authorization", "prewarm", "Prewarm", "session", "Forwarded"} {
			require.NotContains(t, got, ours)
		}
		require.Empty(t, resp.Header.Get("Content-Security-Policy"), "the program says it, if it wants")
		require.Equal(t, "private", resp.Header.Get("Cache-Control"))
		require.Contains(t, textOf(t, visit(t, c, http.MethodGet, host, "/", with(cookie, "Authorization", "Basic dTpw"))), "Authorization=Basic dTpw")

		// The program's own API, at paths like ours.
		require.Contains(t, textOf(t, visit(t, c, http.MethodGet, host, "/api/v1/whoami", cookie)), "GET /api/v1/whoami localhost")

		resp = visit(t, c, http.MethodGet, host, "/login", cookie)
		require.Equal(t, origin+"/done?x=1", resp.Header.Get("Location"))
		require.Equal(t, []string{"theirs=1"}, resp.Header.Values("Set-Cookie"))
		require.Empty(t, resp.Header.Get("Clear-Site-Data"))
		require.Equal(t, "default-src *", resp.Header.Get("Content-Security-Policy"))

		ws, err := socket(t, c, host, with(cookie, "Origin", origin))
		require.NoError(t, err)
		for i := range 10 {
			require.NoError(t, ws.Write(t.Context(), websocket.MessageText, fmt.Append(nil, i)))
			_, got, err := ws.Read(t.Context())
			require.NoError(t, err)
			require.Equal(t, fmt.Sprint(i), string(got))
		}
	}

	// Without a cookie a page leads to ours, with where it was to lead; everything else is refused.
	resp = visit(t, b.client(), http.MethodGet, host, "/docs?page=2", navigation())
	require.Equal(t, http.StatusSeeOther, resp.StatusCode)
	require.Regexp(t, fmt.Sprintf(`^http://127\.0\.0\.1:\d+/workspaces/%s/ports/%d\?path=%%2Fdocs%%3Fpage%%3D2$`, b.name, b.port), resp.Header.Get("Location"))
	resp = visit(t, b.client(), http.MethodGet, host, "/docs", nil)
	require.Equal(t, http.StatusUnauthorized, resp.StatusCode)
	require.NotContains(t, textOf(t, resp), "localhost:")

	// That it was visited is on record.
	eventually(t, "the sessions in the audit log", func() bool {
		log, err := b.owner.Audit(t.Context(), sdk.AuditFilter{Action: "session.begin"})
		require.NoError(t, err)
		raw, err := json.Marshal(log)
		require.NoError(t, err)
		return strings.Contains(string(raw), fmt.Sprintf(`"port":%d`, b.port))
	})
}

func socket(t *testing.T, at *sdk.Client, host string, header http.Header) (*websocket.Conn, error) {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), at.URL.String()+"/socket", &websocket.DialOptions{HTTPHeader: header, Host: host})
	if err == nil {
		t.Cleanup(func() { _ = ws.CloseNow() })
	}
	return ws, err
}

// No host of the domain has our pages or the API, for anybody. A cookie is for one port of one claim.
func TestPorts_browserHosts(t *testing.T) {
	t.Parallel()
	b := inABrowser(t)
	host, cookie := b.link(b.alice)
	others := enter(t, b.bob)
	domain := host[strings.Index(host, "."):]
	everything := with(cookie, "Authorization", "Bearer "+b.owner.Token)
	for _, crafted := range []string{
		"ws.localhost", "x" + domain, b.name + domain, "0--" + b.name + domain, "65536--" + b.name + domain, "00--" + b.name + domain,
		fmt.Sprintf("0%d--%s%s", b.port, b.name, domain), "x." + host, fmt.Sprintf("%d--%s.ws.localhost.", b.port, b.name),
		fmt.Sprintf("%d--%s.x.ws.localhost", b.port, b.name), fmt.Sprintf("%d-%s%s", b.port, b.name, domain),
	} {
		for _, path := range []string{"/", "/api/v1/whoami", "/healthz", "/metrics", "/.prewarm/enter?link=x"} {
			resp := visit(t, b.client(), http.MethodGet, crafted, path, everything)
			require.Equal(t, http.StatusNotFound, resp.StatusCode, "%s%s", crafted, path)
			require.Contains(t, textOf(t, resp), "there is nothing at this address")
		}
	}
	// Those of another workspace, a port that this cookie is not for, and one that does not exist.
	for _, crafted := range []string{
		fmt.Sprintf("%d--%s%s", b.port, others.name, domain), fmt.Sprintf("%d--%s%s", b.port+1, b.name, domain),
		fmt.Sprintf("%d--nothing%s", b.port, domain),
	} {
		for _, path := range []string{"/", "/api/v1/whoami", "/healthz", "/metrics", "/webhooks/x", "/relay"} {
			resp := visit(t, b.client(), http.MethodGet, crafted, path, everything)
			require.Equal(t, http.StatusUnauthorized, resp.StatusCode, "%s%s: %s", crafted, path, textOf(t, resp))
		}
	}
	resp := visit(t, b.client(), http.MethodGet, host, "/.prewarm/x", cookie)
	require.Equal(t, http.StatusNotFound, resp.StatusCode)
	require.NotContains(t, textOf(t, resp), "GET /")

	// The cookie is no token, no session, and no link; and no token is a cookie.
	value := strings.TrimPrefix(cookie.Get("Cookie"), cookieOfPort+"=")
	for name, header := range map[string]http.Header{
		"a token": {"Authorization": {"Bearer " + value}}, "a session": {"Cookie": {"prewarm=" + value}}, "a cookie": cookie,
	} {
		resp := visit(t, b.client(), http.MethodGet, "", "/api/v1/whoami", header)
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode, name)
	}
	_, again, resp := open(t, b.client(), "http://"+host+"/.prewarm/enter?link="+value)
	require.Equal(t, http.StatusForbidden, resp.StatusCode)
	require.Empty(t, again)
	for name, wrong := range map[string]string{"a token": b.alice.Token, "nothing": "", "another": value[:len(value)-4] + "AAAA"} {
		resp := visit(t, b.client(), http.MethodGet, host, "/", http.Header{"Cookie": {cookieOfPort + "=" + wrong}})
		require.Equal(t, http.StatusUnauthorized, resp.StatusCode, name)
	}
	// A neighbour can set more cookies of the name, and changes nothing by that.
	resp = visit(t, b.client(), http.MethodGet, host, "/", http.Header{"Cookie": {cookieOfPort + "=x; " + cookie.Get("Cookie")}})
	require.Equal(t, http.StatusOK, resp.StatusCode)

	// A link is for its own host, and to be used there only.
	made, err := b.alice.LinkPort(t.Context(), b.name, b.port, "")
	require.NoError(t, err)
	u, err := url.Parse(made.URL)
	require.NoError(t, err)
	for _, crafted := range []string{fmt.Sprintf("%d--%s%s", b.port, others.name, domain), fmt.Sprintf("%d--%s%s", b.port+1, b.name, domain)} {
		_, got, resp := open(t, b.client(), "http://"+crafted+u.RequestURI())
		require.Contains(t, []int{http.StatusForbidden, http.StatusNotFound}, resp.StatusCode)
		require.Empty(t, got)
	}
	_, got, _ := open(t, b.client(), made.URL)
	require.NotEmpty(t, got, "what was refused did not use it up")
}

// Nobody but the claim's user gets a link; no page of another origin, a neighbour's too, does anything with their cookie.
func TestPorts_browserStrangers(t *testing.T) {
	t.Parallel()
	b := inABrowser(t)
	for name, c := range map[string]*sdk.Client{"another member": b.bob, "the owner": b.owner} {
		_, err := c.LinkPort(t.Context(), b.name, b.port, "")
		require.Equal(t, http.StatusNotFound, sdk.StatusOf(err), "%s: %v", name, err)
	}
	for _, port := range []int{0, 65536} {
		_, err := b.alice.LinkPort(t.Context(), b.name, port, "")
		require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err), "%v", err)
	}
	for _, path := range []string{"x", "@evil.example/", "https://evil.example/"} {
		_, err := b.alice.LinkPort(t.Context(), b.name, b.port, path)
		require.Equal(t, http.StatusUnprocessableEntity, sdk.StatusOf(err), "%v", err)
	}
	host, cookie := b.link(b.alice)
	own := "http://" + host
	neighbour := strings.Replace(own, fmt.Sprint(b.port), "1", 1)
	for _, from := range []string{neighbour, "http://evil.example", "null", "https://" + host, b.alice.URL.String()} {
		_, err := socket(t, b.client(), host, with(cookie, "Origin", from))
		require.ErrorContains(t, err, "403", from)
		resp := visit(t, b.client(), http.MethodPost, host, "/", with(cookie, "Origin", from))
		require.Equal(t, http.StatusForbidden, resp.StatusCode, from)
		require.Contains(t, textOf(t, resp), "a page of another origin asks")
	}
	for _, site := range []string{"same-site", "cross-site"} {
		for _, mode := range []string{"no-cors", "cors", "navigate"} { // the last in a frame
			resp := visit(t, b.client(), http.MethodGet, host, "/", with(cookie, "Sec-Fetch-Site", site, "Sec-Fetch-Mode", mode, "Sec-Fetch-Dest", "iframe"))
			require.Equal(t, http.StatusForbidden, resp.StatusCode, "%s %s", site, mode)
		}
		resp := visit(t, b.client(), http.MethodGet, host, "/", with(cookie, "Sec-Fetch-Site", site, "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"))
		require.Equal(t, http.StatusOK, resp.StatusCode, "a link that is followed")
	}
	_, err := socket(t, b.client(), host, with(nil, "Origin", own))
	require.ErrorContains(t, err, "401", "without a cookie")
}

// A cookie ends with what its link was made with, and with the claim: requests at once, and what goes on within a second.
func TestPorts_browserEnds(t *testing.T) {
	t.Parallel()
	b := inABrowser(t)
	endless := func(host string, cookie http.Header) *http.Response {
		t.Helper()
		resp := visit(t, b.client(), http.MethodGet, host, "/endless", cookie)
		_, err := io.ReadFull(resp.Body, make([]byte, 1))
		require.NoError(t, err)
		return resp
	}
	over := func(host string, cookie http.Header, what string, running *http.Response, since time.Time) {
		t.Helper()
		for _, c := range b.clients {
			resp := visit(t, c, http.MethodGet, host, "/", cookie)
			require.Contains(t, []int{http.StatusUnauthorized, http.StatusNotFound, http.StatusConflict}, resp.StatusCode, what)
			require.NotContains(t, textOf(t, resp), "localhost")
		}
		_, err := running.Body.Read(make([]byte, 1))
		require.Error(t, err, what)
		t.Logf("%s: what went on ended after %s", what, time.Since(since))
	}

	// A session of the page, which is signed out.
	page := func(method, path, session string) *http.Response {
		t.Helper()
		header := http.Header{"Sec-Fetch-Site": {"same-origin"}, "Cookie": {session}}
		if session == "" {
			header = http.Header{"Authorization": {"Bearer " + b.alice.Token}}
		}
		return visit(t, b.clients[0], method, "", "/api/v1"+path, header)
	}
	signedIn := page(http.MethodPost, "/session", "")
	require.Equal(t, http.StatusOK, signedIn.StatusCode)
	session := ""
	for _, c := range signedIn.Cookies() {
		if c.Value != "" {
			session = c.Name + "=" + c.Value
		}
	}
	made := page(http.MethodPost, fmt.Sprintf("/workspaces/%s/ports/%d/link", b.name, b.port), session)
	require.Equal(t, http.StatusOK, made.StatusCode)
	_, link, _ := strings.Cut(textOf(t, made), `"url":"`)
	link, _, _ = strings.Cut(link, `"`)
	host, cookie, resp := open(t, b.client(), link)
	require.Equal(t, http.StatusSeeOther, resp.StatusCode, link)
	running, since := endless(host, cookie), time.Now()
	require.Equal(t, http.StatusNoContent, page(http.MethodDelete, "/session", session).StatusCode)
	over(host, cookie, "signed out", running, since)

	// A token, which is revoked.
	second, err := b.alice.CreateToken(t.Context(), sdk.CreateTokenRequest{Name: "second"})
	require.NoError(t, err)
	other, err := sdk.New(b.servers[0].URL, second.Secret)
	require.NoError(t, err)
	host, cookie = b.link(other)
	running, since = endless(host, cookie), time.Now()
	unused, err := other.LinkPort(t.Context(), b.name, b.port, "")
	require.NoError(t, err)
	require.NoError(t, b.owner.RevokeToken(t.Context(), "second"))
	over(host, cookie, "revoked", running, since)
	_, got, resp := open(t, b.client(), unused.URL)
	require.Equal(t, http.StatusForbidden, resp.StatusCode, "so is its link")
	require.Empty(t, got)

	// The claim.
	host, cookie = b.link(b.alice)
	unused, err = b.alice.LinkPort(t.Context(), b.name, b.port, "")
	require.NoError(t, err)
	ws, err := socket(t, b.client(), host, cookie)
	require.NoError(t, err)
	running, since = endless(host, cookie), time.Now()
	_, err = b.alice.ReleaseWorkspace(t.Context(), b.name)
	require.NoError(t, err)
	over(host, cookie, "released", running, since)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, _, err = ws.Read(ctx)
	require.Error(t, err)
	require.NoError(t, ctx.Err())
	_, got, resp = open(t, b.client(), unused.URL)
	require.Contains(t, []int{http.StatusForbidden, http.StatusNotFound, http.StatusConflict}, resp.StatusCode, "so is its link")
	require.Empty(t, got)
}

// Anybody reaches a public port, from any page and without a cookie, and no other port; until the owner does not allow it any more, or
// the claim ends. Nobody reaches one of a workspace that is not claimed.
func TestPorts_public(t *testing.T) {
	t.Parallel()
	servers := fleet(t, 2, "--workspace-domain", "ws.localhost")
	owner, port := servers[0].Client, web(t)
	template := strings.Replace(fmt.Sprintf(enterable, 2), "{heartbeat_timeout: 1m}", fmt.Sprintf("{public_ports: [%d]}", port), 1)
	have := func(document string) {
		t.Helper()
		_, err := owner.Apply(t.Context(), sdk.ApplyRequest{Document: document, File: "test.yaml"})
		require.NoError(t, err)
	}
	have(opened + template)
	alice := users(t, servers[0].URL, owner)("alice", "member")
	host := func(port int, name string) string { return fmt.Sprintf("%d--%s.ws.localhost", port, name) }
	unclaimed := ready(t, owner)
	e := enter(t, alice)

	for _, s := range servers {
		evil := http.Header{"Origin": {"http://evil.example"}, "Cookie": {cookieOfPort + "=x; theirs=1"}}
		resp := visit(t, s.Client, http.MethodPost, host(port, e.name), "/x", evil)
		got := textOf(t, resp)
		require.Equal(t, http.StatusOK, resp.StatusCode, got)
		require.Contains(t, got, " Cookie=theirs=1")
		require.NotContains(t, got, cookieOfPort)
		require.Equal(t, http.StatusUnauthorized, visit(t, s.Client, http.MethodGet, host(port+1, e.name), "/", nil).StatusCode)
		if unclaimed.Name != e.name {
			require.Equal(t, http.StatusUnauthorized, visit(t, s.Client, http.MethodGet, host(port, unclaimed.Name), "/", nil).StatusCode)
		}
	}
	eventually(t, "the record of a public visit", func() bool {
		log, err := owner.Audit(t.Context(), sdk.AuditFilter{Action: "session.begin"})
		require.NoError(t, err)
		raw, err := json.Marshal(log)
		require.NoError(t, err)
		return strings.Contains(string(raw), `"right":"public"`)
	})

	endless := visit(t, servers[1].Client, http.MethodGet, host(port, e.name), "/endless", nil)
	_, err := io.ReadFull(endless.Body, make([]byte, 1))
	require.NoError(t, err)
	have(closed)
	require.Equal(t, http.StatusUnauthorized, visit(t, servers[0].Client, http.MethodGet, host(port, e.name), "/", nil).StatusCode)
	_, err = endless.Body.Read(make([]byte, 1))
	require.Error(t, err, "what goes on ends")

	have(opened)
	other := enter(t, alice)
	require.Equal(t, http.StatusOK, visit(t, servers[0].Client, http.MethodGet, host(port, other.name), "/", nil).StatusCode)
	_, err = alice.ReleaseWorkspace(t.Context(), other.name)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, visit(t, servers[0].Client, http.MethodGet, host(port, other.name), "/", nil).StatusCode)
}

package e2e_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// withTLS is a proxy that ends TLS, with a certificate for the page and for all ports of a domain, and the file of what vouches for it.
func withTLS(t *testing.T, server, domain string) (address string, authorities *x509.CertPool, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, DNSNames: []string{"*." + domain}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	authorities = x509.NewCertPool()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	require.True(t, authorities.AppendCertsFromPEM(certificate))
	file = filepath.Join(t.TempDir(), "authority.pem")
	require.NoError(t, os.WriteFile(file, certificate, 0o600))
	proxy := httptest.NewUnstartedServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(&url.URL{Scheme: "http", Host: server})
		r.Out.Host = r.In.Host
		r.SetXForwarded()
	}})
	proxy.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	proxy.StartTLS()
	t.Cleanup(proxy.Close)
	return proxy.Listener.Addr().String(), authorities, file
}

// Behind TLS a link leads to https, the cookie is Secure and for its host alone, and pages and WebSockets come as they should.
func TestPorts_browserOverTLS(t *testing.T) {
	t.Parallel()
	const domain = "ws.example.test"
	listen := freeListen(t)
	address, authorities, file := withTLS(t, listen, domain)
	server := e2etest.Start(t, e2etest.Options{
		PostgresURL: dbtest.URL(t), Listen: listen, Tick: 300 * time.Millisecond,
		Args: []string{"--access-url", "https://" + address, "--access-ca-file", file, "--workspace-domain", domain, "--trusted-proxies", "127.0.0.1/32"},
	})
	c := server.Client
	apply(t.Context(), t, c, enterable, 1)
	e := enter(t, c)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = c.DeleteTemplate(ctx, "agents")
		eventually(t, "all workspaces to be gone", func() bool {
			_, _ = c.DeleteWorkspace(ctx, e.name, false)
			left, _ := filepath.Glob(filepath.Join(server.DataDir, "local", "prebuild-*"))
			return len(left) == 0
		})
	})
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	browser := &http.Client{Jar: jar, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12},
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		},
	}}
	defer browser.CloseIdleConnections()

	_, tlsPort, err := net.SplitHostPort(address)
	require.NoError(t, err)
	port := web(t)
	made, err := c.LinkPort(t.Context(), e.name, port, "/docs")
	require.NoError(t, err)
	origin := fmt.Sprintf("https://%d--%s.%s:%s", port, e.name, domain, tlsPort)
	require.Contains(t, made.URL, origin+"/.prewarm/enter?link=")

	// Who has no cookie yet is led to the page, by https too.
	browser.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	get := func(address string) *http.Response {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
		require.NoError(t, err)
		req.Header = navigation()
		resp, err := browser.Do(req)
		require.NoError(t, err)
		t.Cleanup(func() { _ = resp.Body.Close() })
		return resp
	}
	require.Equal(t, fmt.Sprintf("https://%s/workspaces/%s/ports/%d?path=%%2Fdocs", address, e.name, port), get(origin+"/docs").Header.Get("Location"))

	resp := get(made.URL)
	require.Equal(t, origin+"/docs", resp.Header.Get("Location"))
	cookies := resp.Cookies()
	require.Len(t, cookies, 1)
	require.Equal(t, "__Host-prewarm-port", cookies[0].Name)
	require.True(t, cookies[0].Secure)
	require.True(t, cookies[0].HttpOnly)
	require.Equal(t, "/", cookies[0].Path)
	require.Empty(t, cookies[0].Domain)
	require.Contains(t, textOf(t, get(origin+"/docs")), fmt.Sprintf("GET /docs localhost:%d", port))
	require.Equal(t, origin+"/done?x=1", get(origin+"/login").Header.Get("Location"))

	ws, _, err := websocket.Dial(t.Context(), origin+"/socket", &websocket.DialOptions{HTTPClient: browser, HTTPHeader: http.Header{"Origin": {origin}}})
	require.NoError(t, err)
	defer ws.CloseNow()
	require.NoError(t, ws.Write(t.Context(), websocket.MessageText, []byte("well")))
	_, got, err := ws.Read(t.Context())
	require.NoError(t, err)
	require.Equal(t, "well", string(got))
	// Its plain neighbour is another origin.
	_, _, err = websocket.Dial(t.Context(), origin+"/socket", &websocket.DialOptions{
		HTTPClient: browser, HTTPHeader: http.Header{"Origin": {"http" + origin[len("https"):]}},
	})
	require.ErrorContains(t, err, "403")

	page, err := sdk.New("https://"+address, c.Token) // the API by the same proxy
	require.NoError(t, err)
	page.HTTPClient = browser
	_, err = page.Ports(t.Context(), e.name)
	require.NoError(t, err)
}

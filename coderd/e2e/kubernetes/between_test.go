package kubernetes_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// between stands between a server and the API server. What it is asked goes on as Prewarm's, unless somebody takes it.
type between struct {
	kubeconfig string

	mu       sync.Mutex
	asked    func(http.ResponseWriter, *http.Request) (taken bool) // nil: nothing is taken
	answered func(*http.Response)                                  // nil: nothing happens
	alive    context.Context                                       // of the requests that are under way
	cut      context.CancelFunc
}

func (p *place) between() *between {
	p.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", p.config.Kubeconfig)
	require.NoError(p.t, err)
	transport, err := rest.TransportFor(config)
	require.NoError(p.t, err)
	target, err := url.Parse(config.Host)
	require.NoError(p.t, err)
	b := &between{kubeconfig: filepath.Join(p.t.TempDir(), "kubeconfig")}
	b.alive, b.cut = context.WithCancel(context.Background())
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
	proxy.FlushInterval = -1 // the events of a watch come when they happen
	proxy.ModifyResponse = func(r *http.Response) error {
		b.mu.Lock()
		answered := b.answered
		b.mu.Unlock()
		if answered != nil {
			answered(r)
		}
		return nil
	}
	proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) } // who asked is gone
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b.mu.Lock()
		asked, alive := b.asked, b.alive
		b.mu.Unlock()
		if asked != nil && asked(w, r) {
			return
		}
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(alive, cancel)()
		proxy.ServeHTTP(w, r.WithContext(ctx))
	}))
	p.t.Cleanup(server.Close)
	p.t.Cleanup(b.cutAll)
	require.NoError(p.t, os.WriteFile(b.kubeconfig, fmt.Appendf(nil, `{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: %q}}],
		users: [{name: a, user: {}}], contexts: [{name: a, context: {cluster: a, user: a, namespace: %q}}], current-context: a}`,
		server.URL, p.namespace), 0o600))
	return b
}

func (b *between) when(answered func(*http.Response)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answered = answered
}

func (b *between) instead(asked func(http.ResponseWriter, *http.Request) (taken bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked = asked
}

// cutAll ends what is under way, watches too.
func (b *between) cutAll() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut()
	b.alive, b.cut = context.WithCancel(context.Background())
}

var timestamp = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"`)

// shift has all times of an answer in JSON be others. Those of a watch come line by line.
func shift(r *http.Response, off time.Duration) {
	from := r.Body
	shifted, to := io.Pipe()
	r.Body = shifted
	r.ContentLength = -1
	r.Header.Del("Content-Length")
	go func() {
		defer from.Close()
		for lines := bufio.NewReader(from); ; {
			line, err := lines.ReadBytes('\n')
			line = timestamp.ReplaceAllFunc(line, func(found []byte) []byte {
				at, err := time.Parse(`"`+time.RFC3339+`"`, string(found))
				if err != nil {
					return found
				}
				return []byte(at.Add(off).Format(`"` + time.RFC3339 + `"`))
			})
			if _, writeErr := to.Write(line); writeErr != nil {
				return // nobody reads on
			}
			if err != nil {
				_ = to.CloseWithError(err)
				return
			}
		}
	}()
}

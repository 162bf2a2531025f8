package kubernetes_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// between stands between a server and the API server, whose answers it may keep for itself. What it is asked goes on as Prewarm's.
type between struct {
	kubeconfig string

	mu       sync.Mutex
	answered func(*http.Response) // nil: nothing happens
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
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.Transport = transport
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
	server := httptest.NewServer(proxy)
	p.t.Cleanup(server.Close)
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

// A server is killed when the API server has made a pod, and before the server hears of it, again and again: in the end each
// workspace is one pod.
func TestServerKilled(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	b := p.between()
	database := dbtest.URL(t)
	kills := rounds(20)
	var server *e2etest.Server
	made := map[string]bool{}
	for n := 1; n <= kills; n++ {
		server = p.serverOf(database)
		victim, ended := server, make(chan struct{})
		var once sync.Once
		b.when(func(r *http.Response) {
			if r.Request.Method == http.MethodPost && strings.HasSuffix(r.Request.URL.Path, "/pods") && r.Request.URL.RawQuery == "" &&
				r.StatusCode == http.StatusCreated {
				once.Do(func() { victim.Kill(); close(ended) })
			}
		})
		apply(t, server.Client, p.document(b.kubeconfig, fmt.Sprintf(plain, n)))
		<-ended
		b.when(nil)
		for _, name := range p.pods() {
			made[name] = true
		}
	}
	require.GreaterOrEqual(t, len(made), kills)
	server = p.serverOf(database)
	ready := p.isFull(server.Client, kills)
	for _, name := range ready {
		delete(made, name)
	}
	require.Empty(t, made, "pods that were made and are no workspace's")
	require.NoError(t, server.Client.DeleteTemplate(t.Context(), "plain"))
	p.eventually("nothing is left", func() bool { return len(p.pods()) == 0 })
}

package engine_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
)

// wire is a socket between a server and the engine. It writes down what is asked, and can stop at one moment: the first
// request after the trap was set that the trap wants, before the engine has it or with its answer in hand.
type wire struct {
	host string

	mu    sync.Mutex
	asked []string // METHOD /path?query, of all requests
	trap  *trap
}

// trap is one moment.
type trap struct {
	wants  func(method, path string) bool
	answer bool          // with the engine's answer in hand; else before the engine has the request
	sprung chan struct{} // closed when it is there
	resume chan struct{} // to be closed, so that it goes on
}

var wires atomic.Int64

func newWire(t *testing.T, engine *dockertest.Engine) *wire {
	t.Helper()
	socket := filepath.Join(engine.Dir, fmt.Sprintf("wire-%d.sock", wires.Add(1)))
	listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	require.NoError(t, err)
	w := &wire{host: "unix://" + socket}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", strings.TrimPrefix(engine.Host, "unix://"))
	}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "engine" },
		ModifyResponse: func(resp *http.Response) error {
			w.reach(resp.Request, true)
			return nil
		},
		Transport:    &http.Transport{DialContext: dial, DisableCompression: true},
		ErrorHandler: func(rw http.ResponseWriter, _ *http.Request, _ error) { rw.WriteHeader(http.StatusBadGateway) },
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w.mu.Lock()
		w.asked = append(w.asked, r.Method+" "+r.URL.String())
		w.mu.Unlock()
		w.reach(r, false)
		// What was sent is carried out, whether somebody waits for the answer or not.
		proxy.ServeHTTP(rw, r.WithContext(context.WithoutCancel(r.Context())))
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return w
}

// reach is called at each moment, and stays where it is to be stopped.
func (w *wire) reach(r *http.Request, answer bool) {
	w.mu.Lock()
	now := w.trap
	if now == nil || now.answer != answer || !now.wants(r.Method, r.URL.Path+"?"+r.URL.RawQuery) {
		w.mu.Unlock()
		return
	}
	w.trap = nil
	w.mu.Unlock()
	close(now.sprung)
	<-now.resume
}

// set sets a trap.
func (w *wire) set(answer bool, wants func(method, path string) bool) *trap {
	t := &trap{wants: wants, answer: answer, sprung: make(chan struct{}), resume: make(chan struct{})}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trap = t
	return t
}

// all is what was asked so far.
func (w *wire) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string{}, w.asked...)
}

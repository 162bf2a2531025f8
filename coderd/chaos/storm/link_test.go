package storm_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// link is a network between two parties, which can be made bad.
type link struct {
	t        testing.TB
	upstream string
	address  string // where it listens, for good

	mu    sync.Mutex
	proxy *toxiproxy.Proxy
}

var toxics = toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())

func newLink(t testing.TB, name, upstream string) *link {
	t.Helper()
	l := &link{t: t, upstream: upstream, address: "127.0.0.1:0"}
	l.proxy = toxiproxy.NewProxy(toxics, name, l.address, upstream)
	require.NoError(t, l.proxy.Start())
	l.address = l.proxy.Listen
	t.Cleanup(l.cut)
	return l
}

// cut ends all connections and refuses new ones.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proxy.Stop()
}

// spoil adds a toxic, in toxiproxy's JSON.
func (l *link) spoil(toxic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		l.t.Errorf("spoil link: %v", err)
	}
}

// heal ends all connections, as they may be half dead, and lets new ones through.
func (l *link) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.proxy.Stop()
	l.proxy = toxiproxy.NewProxy(toxics, l.proxy.Name, l.address, l.upstream)
	if err := l.proxy.Start(); err != nil {
		l.t.Errorf("heal link: %v", err)
	}
}

// lead heals it, towards another upstream from now on.
func (l *link) lead(upstream string) {
	l.mu.Lock()
	l.upstream = upstream
	l.mu.Unlock()
	l.heal()
}

const (
	swallowUp   = `{"name": "up", "type": "timeout", "stream": "upstream", "attributes": {"timeout": 0}}`
	swallowDown = `{"name": "down", "type": "timeout", "stream": "downstream", "attributes": {"timeout": 0}}`
	reset       = `{"name": "reset", "type": "reset_peer", "stream": "downstream", "attributes": {"timeout": 0}}`
	slow        = `{"name": "slow", "type": "latency", "attributes": {"latency": 150, "jitter": 100}}`
)

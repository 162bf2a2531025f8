package pubsub_test

import (
	"io"
	"net"
	"net/url"
	"strconv"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
)

// proxy is a TCP way to the test's PostgreSQL that can swallow what is sent on the connections it has.
type proxy struct {
	listener        net.Listener
	network, target string

	mu        sync.Mutex
	swallowed chan struct{} // closed by blackHole for the connections of before
	open      []net.Conn
}

// newProxy returns a proxy and the URL of the same database through it.
func newProxy(t *testing.T, databaseURL string) (*proxy, string) {
	config, err := pgconn.ParseConfig(databaseURL)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)

	p := &proxy{listener: listener, swallowed: make(chan struct{})}
	p.network, p.target = pgconn.NetworkAddress(config.Host, config.Port)
	go p.serve()

	u, err := url.Parse(databaseURL)
	require.NoError(t, err)
	u.Host = "127.0.0.1:" + strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	query := u.Query()
	query.Del("host")
	query.Del("port")
	u.RawQuery = query.Encode()
	return p, u.String()
}

func (p *proxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(p.network, p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		swallowed := p.swallowed
		p.open = append(p.open, client, server)
		p.mu.Unlock()
		go forward(server, client, swallowed)
		go forward(client, server, swallowed)
	}
}

func forward(to, from net.Conn, swallowed <-chan struct{}) {
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		select {
		case <-swallowed: // says nothing, hears nothing, and stays connected
			_, _ = io.Copy(io.Discard, from)
			return
		default:
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// blackHole swallows everything on the connections of now; new ones work.
func (p *proxy) blackHole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.swallowed)
	p.swallowed = make(chan struct{})
}

// close breaks all connections, so that whoever uses one notices.
func (p *proxy) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.listener.Close()
	for _, conn := range p.open {
		_ = conn.Close()
	}
}

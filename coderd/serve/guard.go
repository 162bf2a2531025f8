package serve

import (
	"cmp"
	"container/list"
	"context"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/coder/quartz"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/metric"
)

// Options of a Guard. Zero values are the defaults.
type Options struct {
	// MaxConnections is how many are served at once; 0: half of the files that the process may open, at most 10,000.
	MaxConnections int
	// MaxPerAddress is how many of them one address may have, and how many requests in progress one client of a trusted
	// proxy; 0: a quarter of MaxConnections.
	MaxPerAddress int
	// Trusted are the proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.
	Trusted []netip.Prefix
	// Reserved says whether a request may use the reserved slots; nil: none may.
	Reserved   func(*http.Request) bool
	Clock      quartz.Clock
	Registerer prometheus.Registerer // nil: none
}

// Guard bounds the connections of one server.
type Guard struct {
	opts     Options
	reserve  int // connections beyond MaxConnections
	refused  *prometheus.CounterVec
	mu       sync.Mutex
	open     int
	byClient map[netip.Addr]*client
	sending  *list.List // of *conn, which have yet to send all of a request: the one that began first is in front
}

// client is what one address has open.
type client struct {
	connections int
	requests    int // by way of trusted proxies
	sending     *list.List
}

// New returns a guard for one server.
func New(opts Options) *Guard {
	opts.MaxConnections = cmp.Or(opts.MaxConnections, defaultMax())
	opts.MaxPerAddress = cmp.Or(opts.MaxPerAddress, max(1, opts.MaxConnections/4))
	if opts.Reserved == nil {
		opts.Reserved = func(*http.Request) bool { return false }
	}
	f := metric.New(opts.Registerer)
	g := &Guard{
		opts: opts, reserve: max(8, opts.MaxConnections/10), byClient: map[netip.Addr]*client{}, sending: list.New(),
		refused: f.Counters("prewarm_http_connections_refused_total",
			"Connections closed, and requests answered 503 or 429, because there were too many, by what was done.", "how"),
	}
	f.Reading("prewarm_http_connections", "Open connections.",
		func() float64 { g.mu.Lock(); defer g.mu.Unlock(); return float64(g.open) })
	for _, how := range []string{"closed", "superseded", "busy", "client"} {
		g.refused.WithLabelValues(how)
	}
	return g
}

// defaultMax leaves half of the files to PostgreSQL's connections, workspaces and logs.
func defaultMax() int {
	const most = 10_000
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil {
		return most
	}
	return int(max(64, min(most, files.Cur/2)))
}

// Listener counts the connections of l.
func (g *Guard) Listener(l net.Listener) net.Listener { return &listener{l, g} }

type listener struct {
	net.Listener
	guard *Guard
}

// Accept returns the next connection that there is room for. What there is none for is closed.
func (l *listener) Accept() (net.Conn, error) {
	for {
		accepted, err := l.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // net/http compares it
		}
		if c := l.guard.admit(accepted); c != nil {
			return c, nil
		}
		_ = accepted.Close()
	}
}

// conn is a connection that is counted.
type conn struct {
	net.Conn
	guard *Guard
	addr  netip.Addr
	over  bool // has a reserved slot
	close sync.Once
	// unread is true from the answer to a request whose body has not all come until net/http has read what was left.
	unread atomic.Bool

	// By guard.mu; nil while it does not send.
	inAll, inClient *list.Element
	closed          bool
}

// admit makes room for a connection, and returns nil where there is none.
func (g *Guard) admit(accepted net.Conn) *conn {
	c := &conn{Conn: accepted, guard: g, addr: addressOf(accepted.RemoteAddr().String())}
	g.mu.Lock()
	var superseded *conn
	of := g.client(c.addr)
	if !g.trusts(c.addr) && of.connections >= g.opts.MaxPerAddress {
		superseded = g.longest(of.sending)
		c.over = superseded == nil
	}
	if superseded == nil && g.open >= g.opts.MaxConnections {
		superseded = g.longest(g.sending)
		c.over = superseded == nil
	}
	if c.over && g.open >= g.opts.MaxConnections+g.reserve {
		g.forget(c.addr)
		g.mu.Unlock()
		g.refused.WithLabelValues("closed").Inc()
		return nil
	}
	g.open++
	of.connections++
	g.sends(c)
	g.mu.Unlock()
	if superseded != nil {
		g.refused.WithLabelValues("superseded").Inc()
		_ = superseded.end()
	}
	return c
}

// longest takes the connection that has been sending for longest out of its lists.
func (g *Guard) longest(sending *list.List) *conn {
	front := sending.Front()
	if front == nil {
		return nil
	}
	c, _ := front.Value.(*conn)
	g.sent(c)
	return c
}

// sends notes that a connection is to send a request from now on, and sent that it has. Both under mu.
func (g *Guard) sends(c *conn) {
	g.sent(c)
	if c.closed {
		return // in favour of another, while its answer was written
	}
	c.inAll, c.inClient = g.sending.PushBack(c), g.client(c.addr).sending.PushBack(c)
}

func (g *Guard) sent(c *conn) {
	if c.inAll != nil {
		g.sending.Remove(c.inAll)
		g.client(c.addr).sending.Remove(c.inClient)
		c.inAll, c.inClient = nil, nil
	}
}

func (g *Guard) client(addr netip.Addr) *client {
	of := g.byClient[addr]
	if of == nil {
		of = &client{sending: list.New()}
		g.byClient[addr] = of
	}
	return of
}

// forget keeps the map as small as what is open.
func (g *Guard) forget(addr netip.Addr) {
	if of := g.byClient[addr]; of != nil && of.connections == 0 && of.requests == 0 {
		delete(g.byClient, addr)
	}
}

// Close ends the connection. While the peer may still send what nobody reads any more, it is ended for writing only, and what
// comes is thrown away: a connection that is closed over unread bytes is reset, and a reset takes the answer with it.
func (c *conn) Close() error {
	if c.unread.Swap(false) && c.CloseWrite() == nil {
		_ = c.SetReadDeadline(c.guard.opts.Clock.Now("serve", "linger").Add(linger))
		go func() {
			_, _ = io.Copy(io.Discard, c.Conn)
			_ = c.end()
		}()
		return nil
	}
	return c.end()
}

// end closes the connection, and ends its count.
func (c *conn) end() error {
	c.close.Do(func() {
		g := c.guard
		g.mu.Lock()
		defer g.mu.Unlock()
		g.sent(c)
		c.closed = true
		g.open--
		g.client(c.addr).connections--
		g.forget(c.addr)
	})
	return c.Conn.Close() //nolint:wrapcheck // it is the connection's
}

// CloseWrite is what net/http ends an answer with, so that it arrives although more of the request is on its way.
func (c *conn) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite() //nolint:wrapcheck // it is the connection's
	}
	return nil
}

type connKey struct{}

// Context is http.Server's ConnContext.
func (*Guard) Context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// State is http.Server's ConnState.
func (g *Guard) State(nc net.Conn, state http.ConnState) {
	c, ok := nc.(*conn)
	if !ok {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch state {
	case http.StateIdle:
		c.unread.Store(false)
		g.sends(c) // its next request
	case http.StateHijacked:
		g.sent(c)
	default:
	}
}

func (g *Guard) done(c *conn) {
	if c == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.sent(c)
}

func addressOf(hostPort string) netip.Addr {
	parsed, err := netip.ParseAddrPort(hostPort)
	if err != nil {
		return netip.Addr{}
	}
	return parsed.Addr().Unmap().WithZone("")
}

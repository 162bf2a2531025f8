package serve

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// patience is how long a body may take whatever its size, and rate how many bytes earn it a second more.
	patience = 10 * time.Second
	rate     = 64 << 10
	// farewell is how long the answer to a refused request may wait for what is left of its body, so that the connection can
	// be used again, and linger how long the client may send on after such an answer.
	farewell = 250 * time.Millisecond
	linger   = 5 * time.Second
)

// Handler serves requests whose bodies come in time, while there are not too many connections.
func (g *Guard) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, _ := r.Context().Value(connKey{}).(*conn)
		release, ok := g.forwarded(r)
		defer release()
		var b *body
		if r.Body != nil && r.Body != http.NoBody {
			now := g.opts.Clock.Now("serve", "body")
			b = &body{
				ReadCloser: r.Body, guard: g, conn: c, control: http.NewResponseController(w), deadline: now.Add(patience), idle: now,
			}
			b.extend()
			r = r.WithContext(r.Context()) // net/http must find its own body in its request, to know what it left unread
			r.Body = b
			defer b.refuse()
		} else {
			g.done(c)
		}
		switch {
		case !ok:
			g.deny(w, "client", http.StatusTooManyRequests, "too many requests of this client are in progress: try again when some are over")
		case c != nil && c.over && !g.opts.Reserved(r):
			g.deny(w, "busy", http.StatusServiceUnavailable, "too many connections are open: close some, or try again soon")
		default:
			if c != nil && c.over {
				w.Header().Set("Connection", "close") // the slot is for one request
			}
			next.ServeHTTP(w, r)
		}
	})
}

// deny answers a request that there is no room for. Its connection ends.
func (g *Guard) deny(w http.ResponseWriter, how string, status int, detail string) {
	g.refused.WithLabelValues(how).Inc()
	w.Header().Set("Connection", "close")
	w.Header().Set("Retry-After", "1")
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = fmt.Fprintf(w, "{\"title\":%q,\"status\":%d,\"detail\":%q}\n", http.StatusText(status), status, detail)
}

// body is a request's, which has to come at a rate. When it is over, nothing is left of its deadline: answers may take as
// long as they like.
type body struct {
	io.ReadCloser
	guard    *Guard
	conn     *conn
	control  *http.ResponseController
	deadline time.Time
	idle     time.Time   // since when the handler has not read: it may be at work with what came, which is not the client's time
	over     atomic.Bool // a handler that hands the body on may end while it is still read
}

func (b *body) extend() { _ = b.control.SetReadDeadline(b.deadline) }

func (b *body) Read(p []byte) (int, error) {
	b.deadline = b.deadline.Add(b.guard.opts.Clock.Since(b.idle, "serve", "body"))
	b.extend() // a handler may have set another
	n, err := b.ReadCloser.Read(p)
	b.deadline = b.deadline.Add(time.Duration(n) * time.Second / rate)
	b.idle = b.guard.opts.Clock.Now("serve", "body")
	if errors.Is(err, io.EOF) && !b.over.Swap(true) {
		_ = b.control.SetReadDeadline(time.Time{})
		b.guard.done(b.conn)
	}
	return n, err //nolint:wrapcheck // readers compare it
}

// refuse is called when the request is answered. net/http reads what is left of its body, for the next request to come,
// which must not take long.
func (b *body) refuse() {
	if !b.over.Load() {
		if b.conn != nil {
			b.conn.unread.Store(true)
		}
		_ = b.control.SetReadDeadline(b.guard.opts.Clock.Now("serve", "refuse").Add(farewell))
	}
}

// forwarded makes the request look as if it came from the client itself, where a trusted proxy says which that is, and
// counts it. False means that the client has too many in progress.
func (g *Guard) forwarded(r *http.Request) (release func(), ok bool) {
	if !g.trusts(addressOf(r.RemoteAddr)) {
		r.Header.Del("X-Forwarded-For")
		r.Header.Del("X-Forwarded-Proto")
		return func() {}, true
	}
	addr, ok := g.clientOf(r.Header.Values("X-Forwarded-For"))
	if !ok {
		return func() {}, true // a health check of the proxy's own
	}
	r.RemoteAddr = net.JoinHostPort(addr.String(), "0")
	g.mu.Lock()
	defer g.mu.Unlock()
	of := g.client(addr)
	of.requests++
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		of.requests--
		g.forget(addr)
	}, of.requests <= g.opts.MaxPerAddress || g.opts.Reserved(r)
}

// clientOf is the last address that no trusted proxy has: what is before it is what that client says.
func (g *Guard) clientOf(headers []string) (netip.Addr, bool) {
	hops := strings.Split(strings.Join(headers, ","), ",")
	for i := len(hops) - 1; i >= 0; i-- {
		addr, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
		if err != nil {
			return netip.Addr{}, false
		}
		addr = addr.Unmap().WithZone("")
		if i == 0 || !g.trusts(addr) {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

func (g *Guard) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(g.opts.Trusted, func(p netip.Prefix) bool { return p.Contains(addr) })
}

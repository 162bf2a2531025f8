package tunnel

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/metric"
	"github.com/prewarm-dev/prewarm/coderd/streams"
)

// Path is where replicas reach each other, under --advertise-url.
const Path = "/relay"

const (
	relayTimeout = 5 * time.Second
	// mostStrangers is how many connections may be about to prove that they are replicas.
	mostStrangers = 32
	// mostRelays is how many relays lead here; more than there are replicas.
	mostRelays = 256
)

// What a replica answers to the id of a tunnel.
const (
	relayOpen byte = iota + 1
	relayNone
	relayTooMany
)

// relays are the connections to and from other replicas.
type relays struct {
	client    *http.Client
	strangers chan struct{}
	streams   *prometheus.CounterVec

	mu     sync.Mutex
	closed bool
	to     map[uuid.UUID]*way // by replica
	from   map[*peer]struct{}
}

// way is the connection to one replica; it is made by one, for all who wait.
type way struct {
	turn chan struct{} // held by who makes it
	peer *peer         // nil: there is none; by turn
}

// peer is a connection with another replica.
type peer struct {
	session *streams.Session
	key     string // that it proved itself by
}

func (r *relays) init(registerer prometheus.Registerer) {
	r.client = &http.Client{Transport: &http.Transport{
		DialContext: (&net.Dialer{Timeout: relayTimeout, KeepAlive: relayTimeout}).DialContext, TLSHandshakeTimeout: relayTimeout,
	}}
	r.strangers = make(chan struct{}, mostStrangers)
	r.to, r.from = map[uuid.UUID]*way{}, map[*peer]struct{}{}
	r.streams = metric.New(registerer).Counters("prewarm_relayed_streams_total",
		"Streams into workspaces that went from one replica to another, by end.", "end")
	r.streams.WithLabelValues("from")
	r.streams.WithLabelValues("to")
}

func (r *relays) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for p := range r.from {
		_ = p.session.Close()
	}
	for _, w := range r.to {
		select {
		case w.turn <- struct{}{}:
			if w.peer != nil {
				_ = w.peer.session.Close()
			}
			<-w.turn
		default: // it is being made, with a context that has ended
		}
	}
}

// relay opens a stream through a tunnel that another replica has. A connection that proves to be broken is made once more.
func (s *Service) relay(ctx context.Context, target Target) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()
	for again := true; ; again = false {
		p, fresh, err := s.way(ctx, target)
		if err != nil {
			// Nothing was asked. If that replica is gone, the agent is about to open a tunnel elsewhere.
			return nil, xerrors.Errorf("reach the replica that has the tunnel: %s: %w", err.Error(), ErrNone)
		}
		conn, err := s.ask(ctx, p, target.TunnelID)
		if err == nil {
			s.relays.streams.WithLabelValues("to").Inc()
			return conn, nil
		}
		if fresh || !again || !p.session.IsClosed() {
			return nil, err
		}
	}
}

func (s *Service) ask(ctx context.Context, p *peer, tunnel uuid.UUID) (net.Conn, error) {
	stream, err := p.session.OpenStream()
	if err != nil {
		_ = p.session.Close()
		return nil, ErrNone
	}
	stop := context.AfterFunc(ctx, func() { _ = stream.SetDeadline(time.Unix(1, 0)) })
	var answer [1]byte
	if _, err = stream.Write(tunnel[:]); err == nil {
		_, err = io.ReadFull(stream, answer[:])
	}
	if !stop() && err == nil {
		err = ctx.Err()
	}
	switch {
	case err != nil:
		err = ErrNone
	case answer[0] == relayOpen:
		return stream, nil
	case answer[0] == relayTooMany:
		err = ErrTooMany
	default:
		err = ErrNone
	}
	_ = stream.Close()
	return nil, err
}

// way is the connection to a replica, which is made if there is none.
func (s *Service) way(ctx context.Context, target Target) (p *peer, fresh bool, err error) {
	s.relays.mu.Lock()
	w := s.relays.to[target.ReplicaID]
	if w == nil {
		w = &way{turn: make(chan struct{}, 1)}
		s.relays.to[target.ReplicaID] = w
	}
	closed := s.relays.closed
	s.relays.mu.Unlock()
	if closed {
		return nil, false, ErrNone
	}
	select {
	case w.turn <- struct{}{}:
		defer func() { <-w.turn }()
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
	if w.peer != nil && !w.peer.session.IsClosed() {
		return w.peer, false, nil
	}
	w.peer, err = s.dialRelay(ctx, target.URL)
	return w.peer, true, err
}

func (s *Service) dialRelay(ctx context.Context, url string) (*peer, error) {
	ws, _, err := websocket.Dial(ctx, strings.TrimSuffix(url, "/")+Path, &websocket.DialOptions{HTTPClient: s.relays.client}) //nolint:bodyclose // the library closes it
	if err != nil {
		return nil, xerrors.Errorf("dial %s: %w", url, err)
	}
	conn, key, err := s.prove(ctx, streams.Conn(context.WithoutCancel(ctx), ws), false)
	if err != nil {
		_ = ws.CloseNow()
		return nil, err
	}
	session, err := streams.Open(conn)
	if err != nil {
		_ = ws.CloseNow()
		return nil, err
	}
	return &peer{session, key}, nil
}

// ServeRelay takes a connection of another replica: one that cannot prove to be a replica is cut off.
func (s *Service) ServeRelay(w http.ResponseWriter, r *http.Request) {
	select {
	case s.relays.strangers <- struct{}{}:
	default:
		http.Error(w, "too many connections are about to prove that they are replicas", http.StatusServiceUnavailable)
		return
	}
	release := sync.OnceFunc(func() { <-s.relays.strangers })
	defer release()
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it is answered
	}
	defer func() { _ = ws.CloseNow() }()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.Context()))
	defer cancel()
	proving, end := context.WithTimeout(ctx, relayTimeout)
	defer end()
	conn, key, err := s.prove(proving, streams.Conn(ctx, ws), true)
	if err != nil {
		s.Log.Info(ctx, "relay refused", slog.F("remote", r.RemoteAddr), slog.Error(err))
		return
	}
	release()
	session, err := streams.Accept(conn)
	if err != nil {
		return
	}
	defer func() { _ = session.Close() }()
	p := &peer{session, key}
	if !s.relays.add(p) {
		return
	}
	defer s.relays.remove(p)
	for {
		stream, err := session.AcceptStream()
		if err != nil {
			return
		}
		go s.serveRelayed(stream)
	}
}

func (r *relays) add(p *peer) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || len(r.from) >= mostRelays {
		return false
	}
	r.from[p] = struct{}{}
	return true
}

func (r *relays) remove(p *peer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.from, p)
}

// serveRelayed leads a stream of another replica into a tunnel of this one, and never to a third.
func (s *Service) serveRelayed(stream net.Conn) {
	defer stream.Close()
	_ = stream.SetReadDeadline(s.Clock.Now("tunnel", "relay").Add(relayTimeout))
	var id uuid.UUID
	if _, err := io.ReadFull(stream, id[:]); err != nil {
		return
	}
	_ = stream.SetReadDeadline(time.Time{})
	conn, err := s.open(id)
	if err != nil {
		answer := relayNone
		if err == ErrTooMany { //nolint:errorlint // it is as open returns it
			answer = relayTooMany
		}
		_, _ = stream.Write([]byte{answer})
		return
	}
	defer conn.Close()
	s.relays.streams.WithLabelValues("from").Inc()
	if _, err := stream.Write([]byte{relayOpen}); err == nil {
		streams.Join(stream, conn)
	}
}

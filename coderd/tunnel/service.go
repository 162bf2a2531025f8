package tunnel

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/coder/websocket"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/metric"
	"github.com/prewarm-dev/prewarm/coderd/streams"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/tunneldb"
)

var (
	// ErrNone: there is no such tunnel, perhaps not any more. The agent is about to open another.
	ErrNone = errors.New("the workspace has no tunnel at the moment")
	// ErrTooMany: the tunnel carries as many streams as it may.
	ErrTooMany = errors.New("too many streams into the workspace are open: close some")
	// ErrOver: the work that the token of the agent is for has ended.
	ErrOver = errors.New("the work of this token has ended")
	// ErrDraining: this replica stops. Another one takes the tunnel.
	ErrDraining = errors.New("the replica is stopping: open the tunnel again, elsewhere")
	// ErrNoWay: another replica has the tunnel, and has no --advertise-url.
	ErrNoWay = errors.New("another replica has the tunnel of the workspace, and none can reach it: " +
		"start every replica with --advertise-url")
)

const (
	rowTimeout      = 5 * time.Second
	handoverTimeout = 5 * time.Second
	// expectTimeout is how long a body waits for the agent to ask for it, where the client waits for that too.
	expectTimeout = 5 * time.Second
	// A stream is kept for the next request for a moment: a request on a new one takes twice as long. Those of tunnels that are idle
	// hold nothing.
	idleTimeout   = 5 * time.Second
	mostIdle      = 1000
	mostIdleOfOne = 4
	// mostTunnels of one workspace at one replica: an agent that opens more loses the oldest.
	mostTunnels = 2
	// mostEnding is how many streams of a tunnel may be about to end at its agent, beside those that are open.
	mostEnding = 64
)

// Agent is whose tunnel it is, as its token says.
type Agent struct {
	WorkspaceID uuid.UUID
	Incarnation int32
	Attempt     int32
}

// Target is where the tunnel of a workspace is, as its row says.
type Target struct {
	TunnelID  uuid.UUID
	ReplicaID uuid.UUID // that has it
	URL       string    // of that replica; empty: it has none

	WorkspaceID uuid.UUID // whose limits hold; none for what is no user's
	UserID      uuid.UUID
}

// Options of a Service. All are needed but those that say otherwise.
type Options struct {
	Store      *database.Store
	Clock      quartz.Clock
	Log        slog.Logger
	Registerer prometheus.Registerer
	Hints      *hints.Hints
	InstanceID uuid.UUID // of this run of the replica
	URL        string    // where other replicas reach this one; empty: nowhere
	// Keys are secrets that all replicas derive from the database and its encryption keys, the newest first.
	Keys func(context.Context) ([][]byte, error)
	// Limits of what users take; none where it is empty.
	Limits Limits
}

// Service has the tunnels of one replica, and the ways to those of others. It is safe for concurrent use.
type Service struct {
	Options
	transport *http.Transport
	relays    relays
	limits    limits

	ends  atomic.Uint64  // claims that have ended, as far as it was heard
	ended hints.Bell     // claims may have ended
	held  sync.WaitGroup // by clients who are still to be told why their streams end

	mu       sync.Mutex
	tunnels  map[uuid.UUID]*tunnel
	of       map[uuid.UUID][]*tunnel // by workspace, the newest last
	claims   map[uuid.UUID]struct{}  // workspaces whose claims have ended here, of which the others are to hear
	look     map[uuid.UUID]struct{}  // workspaces to look at
	draining bool
	stopped  bool
}

// tunnel is one connection of an agent to this replica.
type tunnel struct {
	id      uuid.UUID
	agent   Agent
	conn    *watched
	session *streams.Session
	slots   chan struct{}
	written bool // its row is; by the service's mu
	silent  int  // looks in a row before which nothing came; of the look
}

// New returns a Service. Run must run for tunnels to end with their work.
func New(o Options) *Service {
	o.Log = o.Log.Named("tunnel")
	s := &Service{
		Options: o, ended: hints.NewBell(), tunnels: map[uuid.UUID]*tunnel{}, of: map[uuid.UUID][]*tunnel{},
		claims: map[uuid.UUID]struct{}{}, look: map[uuid.UUID]struct{}{},
	}
	s.relays.init(o.Registerer)
	s.limits.init(o.Limits, o.Registerer)
	s.transport = &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			target, ok := ctx.Value(targetKey{}).(Target)
			if !ok {
				return nil, ErrNone
			}
			return s.limits.dial(ctx, target, func() (net.Conn, error) { return s.Dial(ctx, target) })
		},
		MaxIdleConns: mostIdle, MaxIdleConnsPerHost: mostIdleOfOne, IdleConnTimeout: idleTimeout, DisableCompression: true,
		MaxResponseHeaderBytes: 64 << 10, ExpectContinueTimeout: expectTimeout,
	}
	metric.New(o.Registerer).Reading("prewarm_tunnels", "Tunnels of agents that this replica has.",
		func() float64 { s.mu.Lock(); defer s.mu.Unlock(); return float64(len(s.tunnels)) })
	return s
}

// Ready is an error while this replica takes no tunnels.
func (s *Service) Ready() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining || s.stopped {
		return ErrDraining
	}
	return nil
}

// Attach takes the tunnel of an agent, and owns ws. It returns when the tunnel can be used; ended is closed when it ends. The error
// says why there is none; it is ErrOver where the work of the agent has ended.
//
// It holds nothing of the request that ws came by, and no goroutine: either is more than an idle tunnel needs.
func (s *Service) Attach(ctx context.Context, agent Agent, ws *websocket.Conn) (ended <-chan struct{}, err error) {
	t := &tunnel{id: uuid.New(), agent: agent, slots: make(chan struct{}, streams.Most)}
	t.conn = &watched{Conn: streams.Conn(context.Background(), ws)} //nolint:contextcheck // it outlives the request
	t.conn.closed = func() { s.leave(t) }
	if t.session, err = streams.OpenQuiet(t.conn); err != nil {
		_ = ws.CloseNow()
		return nil, err
	}
	if err = s.enter(t); err == nil {
		err = s.write(ctx, t)
	}
	if err != nil {
		_ = t.session.Close()
	}
	if t.session.IsClosed() { // it may have ended before it was entered
		s.leave(t) //nolint:contextcheck // as above
	}
	return t.session.CloseChan(), err
}

// watched is a connection that is known to have said something, and to be closed.
type watched struct {
	net.Conn
	heard  atomic.Bool
	closed func()
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	w.heard.Store(true)
	return n, err //nolint:wrapcheck // readers compare it
}

func (w *watched) Close() error {
	err := w.Conn.Close()
	go w.closed()
	return err //nolint:wrapcheck // it is the connection's
}

// enter comes before the row: a look at the rows that finds none ends the tunnel.
func (s *Service) enter(t *tunnel) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining || s.stopped {
		return ErrDraining
	}
	s.tunnels[t.id] = t
	all := append(s.of[t.agent.WorkspaceID], t)
	for len(all) > mostTunnels {
		go func(oldest *tunnel) { _ = oldest.session.Close() }(all[0])
		all = all[1:]
	}
	s.of[t.agent.WorkspaceID] = all
	return nil
}

func (s *Service) leave(t *tunnel) {
	s.mu.Lock()
	delete(s.tunnels, t.id)
	var rest []*tunnel
	for _, other := range s.of[t.agent.WorkspaceID] {
		if other != t {
			rest = append(rest, other)
		}
	}
	s.of[t.agent.WorkspaceID] = rest
	if len(rest) == 0 {
		delete(s.of, t.agent.WorkspaceID)
	}
	stopped := s.stopped
	s.mu.Unlock()
	if stopped {
		return // all rows go at once
	}
	ctx, cancel := context.WithTimeout(context.Background(), rowTimeout)
	defer cancel()
	if err := s.forget(ctx, t.id); err != nil {
		s.Log.Debug(ctx, "remove row of tunnel", slog.Error(err)) // the next look removes it
	}
}

// write writes the row. It is ErrOver where the work has ended.
func (s *Service) write(ctx context.Context, t *tunnel) error {
	ctx, cancel := context.WithTimeout(ctx, rowTimeout)
	defer cancel()
	n, err := tunneldb.New(s.Store).InsertTunnel(ctx, tunneldb.InsertTunnelParams{
		ID: t.id, WorkspaceID: t.agent.WorkspaceID, Incarnation: t.agent.Incarnation, Attempt: t.agent.Attempt,
		ReplicaID: s.InstanceID, Url: s.URL,
	})
	if err != nil {
		return xerrors.Errorf("write row of tunnel: %w", err)
	}
	if n == 0 {
		return ErrOver
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.written = true
	return nil
}

func (s *Service) forget(ctx context.Context, ids ...uuid.UUID) error {
	return tunneldb.New(s.Store).DeleteTunnels(ctx, tunneldb.DeleteTunnelsParams{Ids: ids, ReplicaID: s.InstanceID})
}

type targetKey struct{}

// Transport sends requests through a tunnel, wherever it is. A stream is kept for requests of the same user only, whose limits it
// counts for.
func (s *Service) Transport(target Target) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.WithContext(context.WithValue(r.Context(), targetKey{}, target))
		to := *r.URL
		to.Host = target.TunnelID.String() + "." + target.UserID.String()
		r.URL, r.Host = &to, target.TunnelID.String()
		return s.transport.RoundTrip(r)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Dial opens a stream through a tunnel, here or at another replica. The errors are those of this package, and those of the
// network.
func (s *Service) Dial(ctx context.Context, target Target) (net.Conn, error) {
	if target.TunnelID == uuid.Nil {
		return nil, ErrNone
	}
	if conn, err := s.open(target.TunnelID); !errors.Is(err, ErrNone) {
		return conn, err
	}
	switch {
	case target.ReplicaID == s.InstanceID: // it was here
		return nil, ErrNone
	case target.URL == "":
		return nil, ErrNoWay
	}
	return s.relay(ctx, target)
}

// open opens a stream through a tunnel of this replica.
func (s *Service) open(id uuid.UUID) (net.Conn, error) {
	s.mu.Lock()
	t := s.tunnels[id]
	s.mu.Unlock()
	if t == nil {
		return nil, ErrNone
	}
	// A stream that was closed here holds what comes until its other side has closed it too: an agent that does not is asked no more.
	if t.session.NumStreams() >= streams.Most+mostEnding {
		return nil, ErrTooMany
	}
	select {
	case t.slots <- struct{}{}:
	default:
		return nil, ErrTooMany
	}
	stream, err := t.session.OpenStream()
	if err != nil {
		<-t.slots
		return nil, ErrNone // it is ending
	}
	return &slot{Conn: stream, free: sync.OnceFunc(func() { <-t.slots })}, nil
}

// slot is a stream that counts until it is closed.
type slot struct {
	net.Conn
	free func()
}

func (s *slot) Close() error {
	s.free()
	return s.Conn.Close() //nolint:wrapcheck // it is the connection's
}

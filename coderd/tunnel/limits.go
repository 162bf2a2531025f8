package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/time/rate"

	"github.com/prewarm-dev/prewarm/coderd/metric"
)

// What streams into workspaces may take, of a replica: a user so many of them, and a user and a workspace so many bytes in a
// second, both ways together. It is counted where the user's request is; what another replica relays is not counted there.
//
// Nobody starves: a stream passes a piece at a time, and who waits for a limit is served in the order of coming. So a terminal
// waits for one piece of each other stream, however much these have to carry.

const (
	// piece is the most that a stream passes at once, and leastPiece how small it gets with a low limit.
	piece      = 32 << 10
	leastPiece = 1 << 10
	// LeastRate is the lowest limit in bytes per second that makes sense.
	LeastRate = 16 << 10
	// mostMeters is how many meters without a stream are remembered before they are looked through.
	mostMeters = 1024
)

// Limits of one replica; 0 is none.
type Limits struct {
	UserStreams   int
	UserRate      int64 // bytes per second
	WorkspaceRate int64
}

// tooMany is ErrTooMany of a user.
type tooMany int

func (n tooMany) Error() string {
	return fmt.Sprintf("you have %d streams into workspaces open at this server, and nobody may have more: close some", int(n))
}

func (tooMany) Is(target error) bool { return target == ErrTooMany }

// meter is what one user or one workspace takes.
type meter struct {
	streams int           // by the mutex of meters
	limiter *rate.Limiter // nil: none
}

// idle meters are as good as new ones. One that has just been used up must not be forgotten: its next stream would have it full.
func (m *meter) idle() bool {
	return m.streams == 0 && (m.limiter == nil || m.limiter.Tokens() >= float64(m.limiter.Burst()))
}

// meters are those of all users, or of all workspaces.
type meters struct {
	rate int64
	mu   sync.Mutex
	of   map[uuid.UUID]*meter
}

// enter counts a stream, unless there are as many as that; 0 is any number. Nobody in particular is not counted.
func (m *meters) enter(id uuid.UUID, most int) (_ *meter, ok bool) {
	if id == uuid.Nil {
		return nil, true
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	one := m.of[id]
	if one == nil {
		if m.of == nil {
			m.of = map[uuid.UUID]*meter{}
		}
		if len(m.of) >= mostMeters {
			for id, other := range m.of {
				if other.idle() {
					delete(m.of, id)
				}
			}
		}
		one = &meter{}
		if m.rate > 0 {
			one.limiter = rate.NewLimiter(rate.Limit(m.rate), int(max(m.rate/20, leastPiece))) // a twentieth of a second
		}
		m.of[id] = one
	}
	if most > 0 && one.streams >= most {
		return nil, false
	}
	one.streams++
	return one, true
}

func (m *meters) leave(id uuid.UUID, one *meter) {
	if one == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if one.streams--; one.streams == 0 && one.limiter == nil {
		delete(m.of, id)
	}
}

type limits struct {
	Limits
	users, workspaces meters
	refused           *prometheus.CounterVec
	bytes             *prometheus.CounterVec
	in, out           prometheus.Counter
}

func (l *limits) init(of Limits, registerer prometheus.Registerer) {
	l.Limits, l.users.rate, l.workspaces.rate = of, of.UserRate, of.WorkspaceRate
	f := metric.New(registerer)
	l.refused = f.Counters("prewarm_refused_streams_total",
		"Streams into workspaces that were refused, by the limit: user or tunnel.", "limit")
	l.bytes = f.Counters("prewarm_stream_bytes_total",
		"Bytes of streams into workspaces, of users of this replica, by direction: in or out.", "direction")
	l.refused.WithLabelValues("user")
	l.refused.WithLabelValues("tunnel")
	l.in, l.out = l.bytes.WithLabelValues("in"), l.bytes.WithLabelValues("out")
}

// dial opens a stream by open, as one of a user into a workspace.
func (l *limits) dial(ctx context.Context, to Target, open func() (net.Conn, error)) (net.Conn, error) {
	user, ok := l.users.enter(to.UserID, l.UserStreams)
	if !ok {
		l.refused.WithLabelValues("user").Inc()
		return nil, tooMany(l.UserStreams)
	}
	workspace, _ := l.workspaces.enter(to.WorkspaceID, 0)
	leave := sync.OnceFunc(func() {
		l.users.leave(to.UserID, user)
		l.workspaces.leave(to.WorkspaceID, workspace)
	})
	conn, err := open()
	if err != nil {
		leave()
		if errors.Is(err, ErrTooMany) {
			l.refused.WithLabelValues("tunnel").Inc()
		}
		return nil, err
	}
	m := &metered{Conn: conn, limits: l, leave: leave, piece: piece}
	for _, one := range []*meter{workspace, user} {
		if one != nil && one.limiter != nil {
			m.limiters = append(m.limiters, one.limiter)
			m.piece = max(leastPiece, min(m.piece, one.limiter.Burst()/4))
		}
	}
	m.ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx)) // it outlives the dial
	return m, nil
}

// metered is a stream that passes a piece at a time, as fast as it may.
type metered struct {
	net.Conn
	limits   *limits
	limiters []*rate.Limiter
	piece    int
	ctx      context.Context //nolint:containedctx // it ends with the stream
	cancel   context.CancelFunc
	leave    func()
}

// wait takes what is passed from all limits.
func (m *metered) wait(n int) error {
	for _, l := range m.limiters {
		if err := l.WaitN(m.ctx, n); err != nil {
			return net.ErrClosed
		}
	}
	return nil
}

// Read lets what was read count before the next piece: what comes meanwhile stays in the window of the stream.
func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p[:min(len(p), m.piece)])
	m.limits.out.Add(float64(n))
	if n > 0 && err == nil {
		err = m.wait(n)
	}
	return n, err //nolint:wrapcheck // readers compare it
}

func (m *metered) Write(p []byte) (written int, err error) {
	for len(p) > 0 && err == nil {
		part := p[:min(len(p), m.piece)]
		if err = m.wait(len(part)); err != nil {
			return written, err
		}
		var n int
		n, err = m.Conn.Write(part)
		m.limits.in.Add(float64(n))
		written, p = written+n, p[n:]
		if err == nil && n < len(part) {
			err = io.ErrShortWrite
		}
	}
	return written, err //nolint:wrapcheck // writers compare it
}

// Close also ends reads and writes that wait.
func (m *metered) Close() error {
	m.cancel()
	m.leave()
	return m.Conn.Close() //nolint:wrapcheck // it is the connection's
}

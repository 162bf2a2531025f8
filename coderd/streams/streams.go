// Package streams carries many streams over one WebSocket: the tunnel between an agent and a replica, and the relay between
// two replicas.
//
// Each stream has a window of 256 KiB, which is what it holds at most of what its reader has not read. One reader that does
// not read holds up no other stream. A peer that does not answer for half a minute is taken for gone.
//
// yamux is 0.1.1 on purpose: docs/decisions/0035-tunnels-are-streams-of-http.md.
package streams

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"time"

	"github.com/coder/websocket"
	"github.com/hashicorp/yamux"
	"golang.org/x/xerrors"
)

const (
	// Window is how many bytes a stream holds at most for a reader that does not read.
	Window = 256 << 10
	// Most is how many streams one session carries at once.
	Most = 256

	// openBacklog is how many streams may be opened that the other side has not taken yet; the next one waits. Each session has
	// room for so many pointers.
	openBacklog = 64

	keepAlive    = 15 * time.Second
	writeTimeout = 15 * time.Second
	openTimeout  = 30 * time.Second
	closeTimeout = 30 * time.Second
)

// Session is one side of a connection with streams. As a net.Listener it accepts those that the other side opens.
type Session = yamux.Session

// Conn is the connection of a WebSocket, until ctx ends.
func Conn(ctx context.Context, ws *websocket.Conn) net.Conn {
	return whole{websocket.NetConn(ctx, ws, websocket.MessageBinary), ws}
}

// whole drops what comes with an error. Where a connection is cut in the middle of a frame, the library returns the last bytes
// as they came, still masked: a reader that took them would have wrong bytes, and not too few.
type whole struct {
	net.Conn
	ws *websocket.Conn
}

// Close ends the connection at once. The library would say farewell and wait for the answer, for seconds, and the streams end
// only after that.
func (c whole) Close() error {
	err := c.ws.CloseNow()
	_ = c.Conn.Close() // lets go of its timers; there is nothing left to say
	return err         //nolint:wrapcheck // as Read
}

func (c whole) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err != nil {
		return 0, err //nolint:wrapcheck // readers compare it
	}
	return n, nil
}

// Open is the side that opens streams; Accept is the other one, and opens none: what it tried would be reset.
func Open(conn net.Conn) (*Session, error) { return open(conn, true) }

// OpenQuiet is Open for connections that are many and idle. It does not ping, which takes a goroutine, as the other side does: the
// caller has to note where nothing comes for long.
func OpenQuiet(conn net.Conn) (*Session, error) { return open(conn, false) }

func open(conn net.Conn, ping bool) (*Session, error) {
	c := config()
	c.AcceptBacklog, c.EnableKeepAlive = openBacklog, ping
	s, err := yamux.Client(&joined{Conn: limitPings(conn)}, c)
	if err == nil {
		err = s.GoAway()
	}
	return wrap(s, err)
}

// Accept is the side that accepts streams.
func Accept(conn net.Conn) (*Session, error) {
	return wrap(yamux.Server(&joined{Conn: limitPings(conn)}, config()))
}

// joined writes the header of a frame and its data at once. yamux writes one after the other, and each would be a message of its
// own, with a system call on either side. One goroutine writes.
type joined struct {
	net.Conn
	frame []byte // its header, while the data is to come
}

const (
	headerSize = 12 // of a frame: version, type, flags, stream, length
	// joinedMost is how much data is copied, to be sent with its header.
	joinedMost = 4 << 10
)

func (j *joined) Write(p []byte) (int, error) {
	switch {
	case len(j.frame) == 0 && len(p) == headerSize && p[1] == typeData && binary.BigEndian.Uint32(p[8:]) > 0:
		j.frame = append(j.frame, p...)
		return len(p), nil
	case len(j.frame) == 0:
		return j.Conn.Write(p) //nolint:wrapcheck // the session compares it
	}
	rest := p
	if len(p) <= joinedMost {
		j.frame, rest = append(j.frame, p...), nil
	}
	_, err := j.Conn.Write(j.frame)
	if err == nil && len(rest) > 0 {
		_, err = j.Conn.Write(rest)
	}
	j.frame = j.frame[:0]
	if err != nil {
		return 0, err //nolint:wrapcheck // as above
	}
	return len(p), nil
}

func wrap(s *Session, err error) (*Session, error) {
	if err != nil {
		return nil, xerrors.Errorf("begin streams: %w", err)
	}
	return s, nil
}

func config() *yamux.Config {
	return &yamux.Config{
		AcceptBacklog: Most, EnableKeepAlive: true, KeepAliveInterval: keepAlive, ConnectionWriteTimeout: writeTimeout,
		MaxStreamWindowSize: Window, StreamOpenTimeout: openTimeout, StreamCloseTimeout: closeTimeout,
		LogOutput: io.Discard, // what goes wrong is an error of the session
	}
}

// Join leads a stream of the other side on to another connection. It returns when both have ended: what the connection sends is handed
// on to its end, and no more of it once the other side has closed the stream.
func Join(stream, to net.Conn) {
	handed := make(chan struct{})
	go func() {
		defer close(handed)
		if _, err := io.Copy(stream, to); err != nil {
			abort(stream)
			abort(to)
			return
		}
		_ = stream.Close() // the other side reads what there is, and closes it too
	}()
	// Who has closed a stream reads nothing more from it. What came all the same would stay in its buffer, for as long as the close takes.
	_, _ = io.Copy(to, stream)
	abort(to)
	abort(stream)
	<-handed
}

// abort ends reads and writes that are under way.
func abort(c net.Conn) {
	_ = c.SetDeadline(time.Unix(1, 0))
	_ = c.Close()
}

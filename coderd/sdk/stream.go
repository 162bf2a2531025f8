package sdk

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/quartz"
	"github.com/coder/websocket"
	"golang.org/x/xerrors"
)

// StatusClaimEnded closes a stream into a workspace whose claim has ended.
const StatusClaimEnded websocket.StatusCode = 4001

// ErrClaimEnded is why a stream ended: its claim was released, deleted or reset, or the lease is over.
var ErrClaimEnded = errors.New("the claim has ended")

const (
	// streamEnd is the text of the message that ends the sender's way. An empty message could not: one that was cut looks the same.
	streamEnd = "end"
	// farewellTimeout bounds how long a close with a cause takes.
	farewellTimeout = time.Second
)

// Stream is bytes both ways over a WebSocket, as on a TCP connection. They are in binary messages, which may be cut anywhere. The
// text message "end" ends the sender's way, and the other way goes on. Where the WebSocket closes before both ways have
// ended, Read returns an error with the cause.
//
// A deadline that expires ends the whole stream.
type Stream struct {
	ws      *websocket.Conn
	ctx     context.Context //nolint:containedctx // a net.Conn has nowhere else to take it from
	cancel  context.CancelCauseFunc
	clock   quartz.Clock
	ended   atomic.Bool  // the sender has, or Close
	writing atomic.Int32 // writes that are under way

	reading sync.Mutex
	message io.Reader // that is read at the moment; nil: the next
	over    bool      // the other side sends no more
	cause   error     // why nothing more can be read

	mu        sync.Mutex
	deadlines [2]*quartz.Timer // of reads and of writes
}

var _ net.Conn = (*Stream)(nil)

// NewStream is a stream until ctx ends. It owns ws.
func NewStream(ctx context.Context, clock quartz.Clock, ws *websocket.Conn) *Stream {
	ws.SetReadLimit(-1) // a message is never held as a whole
	s := &Stream{ws: ws, clock: clock}
	s.ctx, s.cancel = context.WithCancelCause(ctx)
	return s
}

// DialStream opens a stream at an address of the caller's, such as that of an agent behind a tunnel.
func DialStream(ctx context.Context, clock quartz.Clock, client *http.Client, address string, header http.Header) (*Stream, error) {
	ws, resp, err := websocket.Dial(ctx, address, &websocket.DialOptions{HTTPClient: client, HTTPHeader: header}) //nolint:bodyclose // nothing is left to close
	if err != nil && resp != nil && resp.StatusCode >= 300 {
		return nil, readError(resp)
	}
	if err != nil {
		return nil, xerrors.Errorf("open connection: %w", err)
	}
	return NewStream(context.WithoutCancel(ctx), clock, ws), nil
}

// Read is io.EOF where the other side has ended its way.
func (s *Stream) Read(p []byte) (int, error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	for !s.over {
		if s.message == nil {
			kind, message, err := s.ws.Reader(s.ctx)
			if err != nil {
				return 0, s.why(err)
			}
			if s.message = message; kind == websocket.MessageText {
				if err := s.readEnd(); err != nil {
					return 0, err
				}
				break
			}
		}
		n, err := s.message.Read(p)
		switch {
		case errors.Is(err, io.EOF):
			s.message = nil
		case err != nil: // what comes with an error may still be masked
			return 0, s.why(err)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, io.EOF
}

func (s *Stream) readEnd() error {
	said, err := io.ReadAll(io.LimitReader(s.message, int64(len(streamEnd))+1))
	if err != nil {
		return s.why(err)
	}
	if string(said) != streamEnd {
		s.CloseWith(websocket.StatusUnsupportedData, "the only text message is "+streamEnd)
		return errors.New("the other side sent a text message that is no part of a stream")
	}
	s.over = true
	return nil
}

// why is the cause of an error: a deadline, a close by the other side, or that the connection was cut.
func (s *Stream) why(err error) error {
	if s.cause = earlyEnd(err, "the connection was cut"); s.ctx.Err() != nil {
		s.cause = context.Cause(s.ctx)
	}
	return s.cause
}

// earlyEnd is why a connection can be read no more: as the other side said, or cut.
func earlyEnd(err error, cut string) error {
	closed := websocket.CloseError{Code: websocket.StatusAbnormalClosure, Reason: cut}
	_ = errors.As(err, &closed)
	if closed.Code == StatusClaimEnded {
		closed.Reason = closed.Reason + ": " + ErrClaimEnded.Error()
	}
	return causeOf(closed)
}

// causeOf is the error of a close whose reason is a sentence.
func causeOf(closed websocket.CloseError) error {
	if closed.Code == StatusClaimEnded {
		return claimEnded(closed.Reason)
	}
	return &StreamError{closed}
}

// claimEnded is ErrClaimEnded, in words.
type claimEnded string

func (e claimEnded) Error() string { return string(e) }
func (claimEnded) Unwrap() error   { return ErrClaimEnded }

// codeOf is the status with which a connection is closed for an error.
func codeOf(err error) websocket.StatusCode {
	if errors.Is(err, ErrClaimEnded) {
		return StatusClaimEnded
	}
	if closed := (&StreamError{}); errors.As(err, &closed) && closed.Code != websocket.StatusAbnormalClosure {
		return closed.Code // 1006 is never sent
	}
	return websocket.StatusNormalClosure
}

// StreamError is why a stream was closed too early: what the other side said, or status 1006 where it was cut.
type StreamError struct{ websocket.CloseError }

func (e *StreamError) Error() string {
	return cmp.Or(e.Reason, "the other side closed the connection")
}

// Unwrap is the close itself.
func (e *StreamError) Unwrap() error { return e.CloseError }

// Write waits while the other side does not read: little is held for it on the way.
func (s *Stream) Write(p []byte) (int, error) {
	if s.ended.Load() {
		return 0, net.ErrClosed
	}
	if len(p) == 0 {
		return 0, nil
	}
	return len(p), s.write(websocket.MessageBinary, p)
}

func (s *Stream) write(kind websocket.MessageType, p []byte) error {
	s.writing.Add(1)
	defer s.writing.Add(-1)
	err := s.ws.Write(s.ctx, kind, p)
	if err == nil {
		return nil
	}
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx) //nolint:wrapcheck // callers compare it
	}
	s.reading.Lock() // a Read that is under way ends too, and knows why
	defer s.reading.Unlock()
	if s.cause != nil {
		return s.cause
	}
	return xerrors.Errorf("write to stream: %w", err)
}

// CloseWrite ends this side's way. The other way goes on.
func (s *Stream) CloseWrite() error {
	if s.ended.Swap(true) {
		return nil
	}
	return s.write(websocket.MessageText, []byte(streamEnd))
}

// Close ends this side's way, and reads no more.
func (s *Stream) Close() error {
	if !s.ended.Load() {
		stop := s.within(farewellTimeout)
		_ = s.CloseWrite()
		stop()
	}
	s.Cut()
	return nil
}

// Cut ends both ways at once. The other side sees that this was not the end.
func (s *Stream) Cut() {
	s.ended.Store(true)
	_ = s.SetDeadline(time.Time{})
	s.cancel(net.ErrClosed)
	_ = s.ws.CloseNow()
}

// CloseWith ends both ways with a cause that the other side gets. It takes a second at most.
func (s *Stream) CloseWith(status websocket.StatusCode, why string) {
	const most = 120 // bytes, which a close has room for
	stop := s.within(farewellTimeout)
	defer stop()
	s.ended.Store(true)
	_ = s.ws.Close(status, strings.ToValidUTF8(why[:min(len(why), most)], ""))
	s.Cut()
}

// within cuts off what is under way after a while, unless that is stopped.
func (s *Stream) within(d time.Duration) (stop func()) {
	timer := s.clock.AfterFunc(d, func() { s.cancel(net.ErrClosed) }, "sdk", "stream")
	return func() { timer.Stop() }
}

// Ping fails where the other side is gone, also while nothing reads from the stream. It passes proxies that cut idle connections.
func (s *Stream) Ping() error {
	if s.writing.Load() > 0 {
		return nil // it would wait for that write, and who reads slowly is not gone
	}
	return ping(s.ctx, s.ws)
}

// LocalAddr is that of no network.
func (*Stream) LocalAddr() net.Addr { return streamAddr{} }

// RemoteAddr is that of no network.
func (*Stream) RemoteAddr() net.Addr { return streamAddr{} }

type streamAddr struct{}

func (streamAddr) Network() string { return "prewarm" }
func (streamAddr) String() string  { return "workspace" }

// SetDeadline sets both.
func (s *Stream) SetDeadline(t time.Time) error {
	s.setDeadline(0, t)
	s.setDeadline(1, t)
	return nil
}

// SetReadDeadline is a net.Conn's.
func (s *Stream) SetReadDeadline(t time.Time) error { s.setDeadline(0, t); return nil }

// SetWriteDeadline is a net.Conn's.
func (s *Stream) SetWriteDeadline(t time.Time) error { s.setDeadline(1, t); return nil }

func (s *Stream) setDeadline(which int, t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.deadlines[which]; before != nil {
		before.Stop()
		s.deadlines[which] = nil
	}
	if !t.IsZero() {
		left := max(s.clock.Until(t, "sdk", "stream"), 0)
		s.deadlines[which] = s.clock.AfterFunc(left, func() { s.cancel(context.DeadlineExceeded) }, "sdk", "stream")
	}
}

// HalfCloser is a connection whose two ways end apart, such as a *net.TCPConn or a *Stream.
type HalfCloser interface {
	net.Conn
	CloseWrite() error
}

// Join copies between two connections until both ways have ended, and hands on the end of each. It returns early with the error of
// one way: the caller then closes both connections, which ends the other way too.
func Join(a, b HalfCloser) error {
	ends := make(chan error, 2)
	for _, way := range [][2]HalfCloser{{a, b}, {b, a}} {
		go func() {
			_, err := io.Copy(way[0], way[1])
			if err == nil {
				err = way[0].CloseWrite()
			}
			ends <- err
		}()
	}
	if err := <-ends; err != nil {
		return err
	}
	return <-ends
}

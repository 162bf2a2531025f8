package events

import (
	"errors"
	"slices"
	"sync"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/hints"
)

// ErrStopping is why streams end that their client does not end.
var ErrStopping = errors.New("the replica is stopping: connect again")

// maxPending is how many different hints wait for a stream before they become one of everything. It bounds the memory of
// a stream that is slow to some 15 KB.
const maxPending = 200

// Stream is what one screen is to be told.
type Stream struct {
	hub      *Hub
	who      auth.Identity
	audience audience
	ready    hints.Bell // something is pending

	mu      sync.Mutex
	joined  bool     // a look that began after the stream did has ended: from here on it is told changes
	pending *Message // nil: nothing

	end   sync.Once
	ended chan struct{}
}

func newStream(hub *Hub, who auth.Identity) *Stream {
	return &Stream{
		hub: hub, who: who, audience: audienceOf(who), ready: hints.NewBell(), ended: make(chan struct{}),
	}
}

// Ready has a value when there is something to Take.
func (s *Stream) Ready() <-chan struct{} { return s.ready }

// Ended is closed when the hub has ended the stream: ErrStopping.
func (s *Stream) Ended() <-chan struct{} { return s.ended }

// Take returns all that is pending, and forgets it; nil where there is nothing.
func (s *Stream) Take() *Message {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.pending
	s.pending = nil
	return m
}

// Close leaves the hub.
func (s *Stream) Close() { s.hub.leave(s) }

// tell adds what an edition has for the stream to what it was not sent yet.
func (s *Stream) tell(e *edition) {
	m := e.to(s.audience, s.who)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case m == nil, !s.joined:
		return
	case m.Everything:
		s.hub.metrics.overflows.Inc()
		s.pending = m
	case s.pending == nil:
		s.pending = m
	case s.pending.Everything: // what is read after it includes the rest
	default:
		var overflow bool
		if s.pending, overflow = of(slices.Concat(s.pending.Hints, m.Hints)); overflow {
			s.hub.metrics.overflows.Inc()
		}
	}
	s.ready.Ring()
}

// tellEverything makes the screen read all anew.
func (s *Stream) tellEverything() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined, s.pending = true, everything()
	s.ready.Ring()
}

func (s *Stream) hasJoined() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined
}

func (s *Stream) stop() { s.end.Do(func() { close(s.ended) }) }

package events

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// Why streams end.
var (
	ErrRevoked  = errors.New("the token is not valid any more")
	ErrRole     = errors.New("the role of the token's user has changed: connect again")
	ErrStopping = errors.New("the replica is stopping: connect again")
)

// maxPending is how many different hints wait for a stream before they become one of everything. It bounds the memory of
// a stream that is slow to some 20 KB.
const maxPending = 200

// Stream is what one screen is to be told.
type Stream struct {
	hub   *Hub
	who   auth.Identity
	ready chan struct{} // something is pending

	mu         sync.Mutex
	joined     bool // a look that began after the stream did has ended: from here on it is told changes
	everything bool
	pending    map[sdk.Hint]struct{}

	end    sync.Once
	ended  chan struct{}
	reason error // set before ended is closed
}

func newStream(hub *Hub, who auth.Identity) *Stream {
	return &Stream{hub: hub, who: who, ready: make(chan struct{}, 1), ended: make(chan struct{})}
}

// Ready has a value when there is something to Take.
func (s *Stream) Ready() <-chan struct{} { return s.ready }

// Ended is closed when the hub has ended the stream, for the reason Err.
func (s *Stream) Ended() <-chan struct{} { return s.ended }

// Err is why the stream was ended; only after Ended.
func (s *Stream) Err() error { return s.reason }

// Take returns all that is pending, in a fixed order, and forgets it.
func (s *Stream) Take() sdk.Events {
	s.mu.Lock()
	pending, everything := s.pending, s.everything
	s.pending, s.everything = nil, false
	s.mu.Unlock()
	return sdk.Events{Everything: everything, Hints: slices.SortedFunc(maps.Keys(pending), func(a, b sdk.Hint) int {
		if c := strings.Compare(a.Topic, b.Topic); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})}
}

// Close leaves the hub.
func (s *Stream) Close() { s.hub.leave(s) }

// tell adds the changes that concern the stream.
func (s *Stream) tell(changes []change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.joined || s.everything {
		return // what is read after everything includes them: it is still to be read
	}
	before := len(s.pending)
	for _, c := range changes {
		if !c.concerns(s.who) {
			continue
		}
		if s.pending == nil {
			s.pending = make(map[sdk.Hint]struct{})
		}
		s.pending[c.hint] = struct{}{}
		if len(s.pending) > maxPending {
			s.hub.metrics.overflows.Inc()
			s.setEverything()
			return
		}
	}
	if len(s.pending) > before {
		s.signal()
	}
}

// tellEverything makes the screen read all anew.
func (s *Stream) tellEverything() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.joined = true
	s.setEverything()
}

func (s *Stream) hasJoined() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.joined
}

func (s *Stream) setEverything() {
	s.pending, s.everything = nil, true
	s.signal()
}

func (s *Stream) signal() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

func (s *Stream) stop(reason error) {
	s.end.Do(func() {
		s.reason = reason
		close(s.ended)
	})
}

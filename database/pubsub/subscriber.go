package pubsub

import (
	"context"
	"slices"
	"sync"
)

// queueLength is how many different hints may wait for a subscriber. Reading everything again is then cheaper anyway.
const queueLength = 64

// subscriber is a queue of hints and the function that they are for.
type subscriber struct {
	channel string
	handle  func(context.Context, Event)
	wake    chan struct{}

	mu     sync.Mutex
	hints  []string
	missed bool // a Resync is due, instead of all hints before it
}

func newSubscriber(channel string, handle func(context.Context, Event)) *subscriber {
	return &subscriber{channel: channel, handle: handle, wake: make(chan struct{}, 1)}
}

// push never blocks.
func (s *subscriber) push(hint string) {
	s.mu.Lock()
	switch {
	case slices.Contains(s.hints, hint):
	case len(s.hints) < queueLength:
		s.hints = append(s.hints, hint)
	default:
		s.hints, s.missed = nil, true
	}
	s.mu.Unlock()
	s.signal()
}

// resync makes all hints so far superfluous.
func (s *subscriber) resync() {
	s.mu.Lock()
	s.hints, s.missed = nil, true
	s.mu.Unlock()
	s.signal()
}

func (s *subscriber) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *subscriber) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		for event, ok := s.next(); ok && ctx.Err() == nil; event, ok = s.next() {
			s.handle(ctx, event)
		}
	}
}

func (s *subscriber) next() (Event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.missed:
		s.missed = false
		return Event{Channel: s.channel, Resync: true}, true
	case len(s.hints) == 0:
		return Event{}, false
	}
	hint := s.hints[0]
	s.hints = s.hints[1:]
	return Event{Channel: s.channel, Payload: hint}, true
}

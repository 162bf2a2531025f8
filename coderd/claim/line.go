package claim

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/hints"
)

// line is who waits on this replica for workspaces of one preset.
type line struct {
	preset uuid.UUID
	length int           // under the service's mutex
	begun  atomic.Uint64 // how often it has begun to be served

	turn   chan struct{} // held by the waiter that serves the line; it guards the fields below
	served uint64        // the last time that succeeded, counted as in begun
	at     time.Time     // when that began
}

// serve binds the oldest waiting claims, once for all waiters that ask meanwhile. If each waiter did so every second, a long line
// would take the database from the jobs that refill the pool. A bind of a moment ago is enough for a waiter that looks again, but
// not for its first look: that bind may have begun before the waiter's row was committed.
func (s *Service) serve(ctx context.Context, l *line, first bool) error {
	asked := l.begun.Load()
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.turn }()
	if l.served > asked || !first && s.Clock.Since(l.at) < lookEvery/2 {
		return nil
	}
	now, n := s.Clock.Now(), l.begun.Add(1)
	bound, err := s.bind(ctx, l.preset)
	for _, b := range bound {
		s.Hints.Bound(b.ClaimID, b.TemplateID)
	}
	if err == nil {
		l.served, l.at = n, now
	}
	return err
}

// Bound wakes who waits for the claim on this replica, and says whether anybody does.
func (s *Service) Bound(id uuid.UUID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	bell, here := s.waiting[id]
	bell.Ring()
	return here
}

// Missed has every waiter look for itself, since notifications may have been lost.
func (s *Service) Missed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, bell := range s.waiting {
		bell.Ring()
	}
}

func (s *Service) enter(id, preset uuid.UUID) (hints.Bell, *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bell, here := s.waiting[id]
	if !here { // the same key may wait twice on one replica
		bell = hints.NewBell()
		s.waiting[id] = bell
	}
	l, here := s.lines[preset]
	if !here {
		l = &line{preset: preset, turn: make(chan struct{}, 1)}
		s.lines[preset] = l
	}
	l.length++
	return bell, l
}

func (s *Service) leave(id uuid.UUID, l *line) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.waiting, id)
	if l.length--; l.length == 0 {
		delete(s.lines, l.preset)
	}
}

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

	turn   chan struct{} // who is in it serves the line; what follows is theirs
	served uint64        // the last time that succeeded, counted as in begun
	at     time.Time     // when that began
}

// serve binds who has waited longest, once for all who ask meanwhile: were each waiter to do so every second, a long line would
// keep the database from making what it waits for. A waiter's first time is never spared, but shared with those who come in that
// moment: whoever became ready before its row was committed bound somebody else, or nobody.
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

// Missed is told that notifications may have been lost: every waiter looks for itself.
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

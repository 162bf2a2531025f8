package claim

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// OnBatch has f called before each statement, with the claims in it.
func (s *Service) OnBatch(f func(batch []workspaces.ClaimFor)) {
	send := s.batches.claim
	s.batches.claim = func(
		ctx context.Context, batch []workspaces.ClaimFor, floors map[uuid.UUID]time.Time,
	) ([]database.Workspace, error) {
		f(batch)
		// f may hold the batch for longer than a write may take.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
		defer cancel()
		return send(ctx, batch, floors)
	}
}

// OnBind has f called instead of what binds who waits for a preset.
func (s *Service) OnBind(f func(ctx context.Context, presetID uuid.UUID) ([]workspaces.Bound, error)) {
	s.bind = f
}

// Join stands in the line for a preset. It returns what serves the line, and what leaves it.
func (s *Service) Join(preset uuid.UUID) (serve func(ctx context.Context, first bool) error, leave func()) {
	id := uuid.New()
	_, l := s.enter(id, preset)
	return func(ctx context.Context, first bool) error { return s.serve(ctx, l, first) }, func() { s.leave(id, l) }
}

// Lines is how many lines there are.
func (s *Service) Lines() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.lines)
}

// Pending is how many claims wait for a batch to be formed.
func (s *Service) Pending() int {
	s.batches.mu.Lock()
	defer s.batches.mu.Unlock()
	return len(s.batches.pending)
}

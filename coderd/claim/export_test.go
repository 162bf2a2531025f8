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

// Pending is how many claims wait for a batch to be formed.
func (s *Service) Pending() int {
	s.batches.mu.Lock()
	defer s.batches.mu.Unlock()
	return len(s.batches.pending)
}

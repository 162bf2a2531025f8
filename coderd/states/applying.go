package states

import (
	"context"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/database/statesdb"
)

// Applying stores, for the run of a token, the addresses that an apply is about to create. Each stays until a state names it or the apply
// is over (Applied): those of one that was cut off are Stored.Unsure. ErrOver: the run is over, and nothing may be applied.
func (s *Service) Applying(ctx context.Context, workspaceID uuid.UUID, token string, addresses []string) error {
	return s.while(ctx, runOf(workspaceID, token), "begin apply", func(ctx context.Context, q *statesdb.Queries, _ lock) error {
		return q.TerraformApplying(ctx, statesdb.TerraformApplyingParams{WorkspaceID: workspaceID, Addresses: addresses})
	})
}

// Applied says that the apply came to its end by itself, so that all it made is in the state. Of what no state names, that stays which
// was unsure before it. ErrOver: the run is over, and what it made is left to what states say.
func (s *Service) Applied(ctx context.Context, workspaceID uuid.UUID, token string, unsure []string) error {
	return s.while(ctx, runOf(workspaceID, token), "end apply", func(ctx context.Context, q *statesdb.Queries, _ lock) error {
		return q.TerraformApplied(ctx, statesdb.TerraformAppliedParams{WorkspaceID: workspaceID, Unsure: unsure})
	})
}

// runOf is the run of a token that nobody has looked at yet: while does.
func runOf(workspaceID uuid.UUID, token string) Run {
	return Run{WorkspaceID: workspaceID, hash: hashOf(token)}
}

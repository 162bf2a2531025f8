package claim

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
)

// keepParameters stores what the claim brings before there is the claim, so that the agent, which may see the claim at
// once, finds it. What is stored for a claim that never comes to be, or is over, retention removes.
func (s *Service) keepParameters(ctx context.Context, claimID uuid.UUID, parameters map[string]string) error {
	if len(parameters) == 0 {
		return nil
	}
	raw, err := json.Marshal(parameters)
	if err != nil {
		return xerrors.Errorf("encode claim parameters: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	err = s.Store.InsertClaimParameters(ctx, database.InsertClaimParametersParams{ClaimID: claimID, Parameters: raw})
	if err != nil {
		return xerrors.Errorf("keep claim parameters: %w", err)
	}
	return nil
}

package claim

import (
	"context"
	"encoding/json"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database/claimdb"
)

// keepParameters stores what the claims bring before there are the claims, so that the agent, which may see its claim at
// once, finds it. What is stored for a claim that never comes to be, or is over, retention removes; secrets go as soon as
// the agent has written them down (WipeSecrets).
func (s *Service) keepParameters(ctx context.Context, req Request, ids []uuid.UUID) error {
	if len(req.Parameters) == 0 && len(req.Secrets) == 0 {
		return nil
	}
	parameters, err := encode(req.Parameters)
	if err != nil {
		return xerrors.Errorf("encode claim parameters: %w", err)
	}
	var secrets json.RawMessage
	if len(req.Secrets) > 0 {
		if secrets, err = encode(req.Secrets); err != nil {
			return xerrors.Errorf("encode secrets: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	for _, id := range ids {
		err := claimdb.New(s.Store).InsertClaimParameters(ctx, claimdb.InsertClaimParametersParams{
			ClaimID: id, Parameters: parameters, Secrets: secrets,
		})
		if err != nil {
			return xerrors.Errorf("keep claim parameters: %w", err)
		}
	}
	return nil
}

// dropParameters forgets what claims brought that came to nothing, or to what an earlier request with the same key was
// given. An error leaves it to retention.
func (s *Service) dropParameters(ctx context.Context, req Request, ids []uuid.UUID) {
	if len(req.Parameters) == 0 && len(req.Secrets) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	if err := claimdb.New(s.Store).DropUnclaimedParameters(ctx, ids); err != nil {
		s.Log.Warn(ctx, "forget what a claim brought that came to nothing", slog.Error(err))
	}
}

func encode(values map[string]string) (json.RawMessage, error) {
	if values == nil {
		values = map[string]string{}
	}
	return json.Marshal(values)
}

package api

import (
	"context"
	"net/http"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func (s *server) registerSigningKeys() {
	answer(s, operation{
		id: "list-signing-keys", method: http.MethodGet, path: "/signing-keys", action: auth.ActReadSigningKeys,
		tag: "signing keys", summary: "List the keys that sign instance tokens",
	}, s.listSigningKeys)
	answer(s, operation{
		id: "rotate-signing-key", method: http.MethodPost, path: "/signing-keys", action: auth.ActRotateSigningKey,
		tag: "signing keys", summary: "Sign instance tokens with a new key",
		description: "Agents get a token of the new key by themselves; an older key is retired when no agent uses it. With " +
			"retire_now the older keys end at once, for one that is known to others: live agents are cut off.",
	}, s.rotateSigningKey)
}

func (s *server) listSigningKeys(ctx context.Context, _ auth.Identity, _ *none) ([]sdk.SigningKey, error) {
	rows, err := viewsdb.New(s.Store).SigningKeyViews(ctx)
	if err != nil {
		return nil, xerrors.Errorf("list signing keys: %w", err)
	}
	keys, signs := make([]sdk.SigningKey, len(rows)), true
	for i, r := range rows {
		keys[i] = sdk.SigningKey{
			ID: r.ID, CreatedAt: r.CreatedAt, RetiredAt: r.RetiredAt, Signs: signs && r.RetiredAt == nil,
			Agents: int(r.Agents),
		}
		signs = signs && r.RetiredAt != nil
	}
	return keys, nil
}

func (s *server) rotateSigningKey(
	ctx context.Context, who auth.Identity, in *body[sdk.RotateRequest],
) ([]sdk.SigningKey, error) {
	err := s.Store.InTx(ctx, database.TxOptions{Label: "rotate signing key"},
		func(ctx context.Context, tx pgx.Tx) error {
			made, retired, err := s.Instances.Rotate(ctx, tx, in.Body.RetireNow)
			if err != nil {
				return err
			}
			return auth.Record(ctx, tx, auth.Entry{
				ActorID: who.UserID, Action: "signing-key.rotate", TargetType: "signing-key", TargetID: made.String(),
				After: struct {
					Retired []uuid.UUID `json:"retired"`
				}{retired},
				Source: who.Source,
			})
		})
	if err != nil {
		return nil, err
	}
	s.Instances.Forget()
	return s.listSigningKeys(ctx, who, nil)
}

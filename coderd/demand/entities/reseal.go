package entities

import (
	"context"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/entitiesdb"
)

// Resealed says how many secrets were sealed with another key than Key, or in plain.
type Resealed struct {
	Key                                        string
	Credentials, Entities, SigningKeys, States int
}

// Reseal seals all secrets with the first key of this replica's file. Nothing is changed where one cannot be opened.
func (s *Service) Reseal(ctx context.Context, who auth.Identity) (Resealed, error) {
	var r Resealed
	var err error
	if r.Key, err = s.Keys.Current(); err != nil {
		return r, auth.Refuse(auth.ErrConflict, "%v", err)
	}
	err = s.inTx(ctx, "reseal secrets", func(ctx context.Context, db database.DBTX) error {
		var err error
		if r.Credentials, err = s.resealCredentials(ctx, db, r.Key); err != nil {
			return err
		}
		if r.Entities, err = s.resealEntities(ctx, db, r.Key); err != nil {
			return err
		}
		if s.SigningKeys != nil {
			if r.SigningKeys, err = s.SigningKeys(ctx, db, r.Key); err != nil {
				return auth.Refuse(auth.ErrConflict, "%v; nothing was resealed", err)
			}
		}
		if s.States != nil {
			if r.States, err = s.States(ctx, db, r.Key); err != nil {
				return auth.Refuse(auth.ErrConflict, "%v; nothing was resealed", err)
			}
		}
		return auth.Record(ctx, db, auth.Entry{
			ActorID: who.UserID, OrganizationID: who.OrganizationID, Action: "forge.reseal", TargetType: "encryption-key",
			TargetID: r.Key, TargetName: r.Key, Source: who.Source,
			After: map[string]any{"credentials": r.Credentials, "entities": r.Entities, "signing_keys": r.SigningKeys, "states": r.States},
		})
	})
	return r, err
}

func (s *Service) resealCredentials(ctx context.Context, db database.DBTX, key string) (n int, err error) {
	q := entitiesdb.New(db)
	rows, err := q.LockForgeCredentials(ctx)
	if err != nil {
		return 0, xerrors.Errorf("read forge credentials: %w", err)
	}
	for _, row := range rows {
		if row.SealedBy == key {
			continue
		}
		sealed, err := s.again(row.Secret, row.SealedBy, aboutCredential(row.ID), "credential "+row.Name)
		if err != nil {
			return 0, err
		}
		err = q.ResealForgeCredential(ctx, entitiesdb.ResealForgeCredentialParams{ID: row.ID, Secret: sealed, SealedBy: key})
		if err != nil {
			return 0, xerrors.Errorf("write forge credential: %w", err)
		}
		n++
	}
	return n, nil
}

func (s *Service) resealEntities(ctx context.Context, db database.DBTX, key string) (n int, err error) {
	q := entitiesdb.New(db)
	rows, err := q.LockForgeEntities(ctx)
	if err != nil {
		return 0, xerrors.Errorf("read forges: %w", err)
	}
	for _, row := range rows {
		if row.SealedBy == key || row.DeletedAt != nil {
			continue
		}
		params := entitiesdb.ResealForgeEntityParams{ID: row.ID, SealedBy: key}
		about := "webhook secret of forge " + row.Name
		if params.WebhookSecret, err = s.again(row.WebhookSecret, row.SealedBy, aboutWebhook(row.ID), about); err != nil {
			return 0, err
		}
		if row.WebhookSecretBefore != nil {
			params.WebhookSecretBefore, err = s.again(row.WebhookSecretBefore, row.SealedBy, aboutWebhook(row.ID), about)
			if err != nil {
				return 0, err
			}
		}
		if err := q.ResealForgeEntity(ctx, params); err != nil {
			return 0, xerrors.Errorf("write forge: %w", err)
		}
		n++
	}
	return n, nil
}

// again opens a secret and seals it with the first key.
func (s *Service) again(sealed []byte, keyID, about, what string) ([]byte, error) {
	plain, err := s.Keys.Open(sealed, keyID, about)
	if err != nil {
		return nil, auth.Refuse(auth.ErrConflict, "nothing was resealed: %s: %v", what, err)
	}
	sealed, _, err = s.Keys.Seal(plain, about)
	return sealed, err
}

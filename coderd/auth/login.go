package auth

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/authdb"
)

// RecordLogin puts a login on the record, of a client that goes on with its token.
func RecordLogin(ctx context.Context, store *database.Store, who Identity) error {
	return store.InTx(ctx, database.TxOptions{Label: "record login"},
		func(ctx context.Context, tx pgx.Tx) error { return recordLogin(ctx, tx, who) })
}

func recordLogin(ctx context.Context, db database.DBTX, who Identity) error {
	return Record(ctx, db, Entry{
		ActorID: who.UserID, OrganizationID: who.OrganizationID, Action: string(ActLogin), TargetType: "user",
		TargetID: who.UserID.String(), TargetName: who.User, Source: who.Source,
		After: map[string]any{"token_id": who.TokenID, "token_name": who.TokenName},
	})
}

// SignIn makes a session, on the record, that stands for the token of who until the token ends, and for age at most. It
// returns the session's secret, which is nowhere else, and when it ends.
func SignIn(ctx context.Context, store *database.Store, who Identity, age time.Duration) (Secret, time.Time, error) {
	secret := newSecret(sessionPrefix)
	hash := secret.Hash()
	var until time.Time
	err := store.InTx(ctx, database.TxOptions{Label: "sign in"},
		func(ctx context.Context, tx pgx.Tx) error {
			var err error
			until, err = authdb.New(tx).InsertSession(ctx, authdb.InsertSessionParams{
				ID: uuid.New(), Hash: hash[:], ExpiresInS: age.Seconds(), TokenID: who.TokenID,
			})
			if err != nil {
				return xerrors.Errorf("insert session: %w", err)
			}
			return recordLogin(ctx, tx, who)
		})
	return secret, until, err
}

// SignOut ends the session of who. A token has none: it stays valid.
func SignOut(ctx context.Context, store *database.Store, who Identity) error {
	if err := authdb.New(store).DeleteSession(ctx, who.CredentialID); err != nil {
		return xerrors.Errorf("delete session: %w", err)
	}
	return nil
}

// ErrUsed: the session has begun before.
var ErrUsed = errors.New("the session has begun already")

// Begin begins a session of a given id that has no secret, and so is good for nothing by itself: the caller has signed what it is
// for. It ends with the token, and after age at most. It returns ErrUsed if it has begun before, on whichever replica.
func Begin(ctx context.Context, store *database.Store, id, tokenID uuid.UUID, age time.Duration) (until time.Time, err error) {
	hash := newSecret(sessionPrefix).Hash() // of a secret that nobody knows
	until, err = authdb.New(store).InsertSession(ctx, authdb.InsertSessionParams{
		ID: id, Hash: hash[:], ExpiresInS: age.Seconds(), TokenID: tokenID,
	})
	switch {
	case database.IsUniqueViolation(err, "sessions_pkey"):
		return until, ErrUsed
	case database.NoRows(err):
		return until, ErrUnauthenticated
	case err != nil:
		return until, xerrors.Errorf("insert session: %w", err)
	}
	return until, nil
}

// RoleNow is the role in an organization of a user whose tokens and sessions these are, by a fresh look. It returns
// ErrUnauthenticated where one of them is not valid any more, or the user is no member.
func RoleNow(ctx context.Context, store *database.Store, organization uuid.UUID, credentials ...uuid.UUID) (database.Role, error) {
	rows, err := authdb.New(store).StillValid(ctx, credentials)
	if err != nil {
		return "", xerrors.Errorf("look whether tokens are still valid: %w", err)
	}
	var role database.Role
	valid := map[uuid.UUID]struct{}{}
	for _, row := range rows {
		if row.OrganizationID == organization {
			role, valid[row.ID] = row.Role, struct{}{}
		}
	}
	for _, id := range credentials {
		if _, ok := valid[id]; !ok {
			return "", ErrUnauthenticated
		}
	}
	return role, nil
}

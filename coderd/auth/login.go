package auth

import (
	"context"
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

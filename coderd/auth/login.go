package auth

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/prewarm-dev/prewarm/database"
)

// RecordLogin puts a login on the record. A token is its own session, so there is nothing else to do.
func RecordLogin(ctx context.Context, store *database.Store, who Identity) error {
	return store.InTx(ctx, database.TxOptions{Label: "record login"},
		func(ctx context.Context, q *database.Queries, _ pgx.Tx) error {
			return Record(ctx, q, Entry{
				ActorID: who.UserID, OrganizationID: who.OrganizationID, Action: string(ActLogin), TargetType: "user",
				TargetID: who.UserID.String(), TargetName: who.User, Source: who.Source,
				After: map[string]any{"token_id": who.TokenID, "token_name": who.TokenName},
			})
		})
}

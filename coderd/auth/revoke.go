package auth

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/authdb"
)

// RevokeToken ends a token, by id or by name, among those that the actor may revoke, and with it all that were made with
// it, also those of other users. Revoking what is revoked is done already. The refusals are ErrNotFound, and ErrConflict where a name means several.
func RevokeToken(ctx context.Context, store *database.Store, actor Identity, ref string) error {
	return store.InTx(ctx, database.TxOptions{Label: "revoke token"},
		func(ctx context.Context, tx pgx.Tx) error {
			q := authdb.New(tx)
			found, err := q.LockTokens(ctx, authdb.LockTokensParams{
				OrganizationID: actor.OrganizationID, Ref: ref, UserID: actor.OnlyOwn(ActRevokeToken),
			})
			if err != nil {
				return xerrors.Errorf("find token: %w", err)
			}
			if len(found) == 0 {
				return Refuse(ErrNotFound, "there is no token %q that you may revoke; `prewarm token list` shows them", ref)
			}
			live := lists.Only(found, func(t authdb.LockTokensRow) bool { return t.RevokedAt == nil })
			switch len(live) {
			case 0:
				return nil
			case 1:
			default:
				return Refuse(ErrConflict, "%d tokens have the name %q; revoke by id: %s", len(live), ref, ids(live))
			}
			ended, err := q.RevokeToken(ctx, live[0].ID)
			if err != nil {
				return xerrors.Errorf("write revocation: %w", err)
			}
			for _, t := range ended {
				entry := Entry{
					ActorID: actor.UserID, OrganizationID: actor.OrganizationID, Action: "token.revoke", TargetType: "token",
					TargetID: t.ID.String(), TargetName: t.Name, Source: actor.Source,
					Before: map[string]any{"user": t.UserName, "revoked": false}, After: map[string]any{"revoked": true},
				}
				if t.ID != live[0].ID {
					entry.Reason = "it was made with " + live[0].Name
				}
				if err := Record(ctx, tx, entry); err != nil {
					return err
				}
			}
			return nil
		})
}

func ids(tokens []authdb.LockTokensRow) string {
	var b strings.Builder
	for i, t := range tokens {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(t.ID.String() + " of " + t.UserName)
	}
	return b.String()
}

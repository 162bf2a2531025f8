package auth

import (
	"cmp"
	"context"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/authdb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// maxLifetime bounds what overflows an interval long before it is useful.
const maxLifetime = 10 * 365 * 24 * time.Hour

var userName = regexp.MustCompile(`^[a-z0-9]([a-z0-9._@-]{0,62}[a-z0-9])?$`)

// TokenRequest asks for a token. User is oneself where empty; one who does not exist is made with Role, member where
// empty. ExpiresIn 0 is never, or when the token it is made with does.
type TokenRequest struct {
	Name      string
	User      string
	Role      database.Role
	ExpiresIn time.Duration
}

// CreateToken makes a token and returns it with its secret, which is nowhere else. The refusals are ErrForbidden,
// ErrInvalid and ErrConflict.
func CreateToken(
	ctx context.Context, store *database.Store, actor Identity, req TokenRequest,
) (viewsdb.TokensRow, Secret, error) {
	req.User = cmp.Or(req.User, actor.User)
	if !actor.May(ActCreateToken, actor.UserID) {
		return viewsdb.TokensRow{}, "", Refuse(ErrForbidden, "%s", Cannot(actor.Role, ActCreateToken))
	}
	if req.User != actor.User && actor.Part(ActManageOthers) != Any {
		return viewsdb.TokensRow{}, "", Refuse(ErrForbidden,
			"only owners make tokens for others; you are %s with role %s", actor.User, actor.Role)
	}
	if !userName.MatchString(req.User) {
		return viewsdb.TokensRow{}, "", Refuse(ErrInvalid, "user name %q: use lower-case letters, digits and . _ @ - "+
			"inside, at most 64 characters", req.User)
	}
	if req.ExpiresIn < 0 || req.ExpiresIn > maxLifetime {
		return viewsdb.TokensRow{}, "", Refuse(ErrInvalid, "expires_in must be positive and at most ten years")
	}
	secret := NewSecret()
	var made viewsdb.TokensRow
	err := store.InTx(ctx, database.TxOptions{Label: "create token"},
		func(ctx context.Context, tx pgx.Tx) error {
			user, err := findOrMakeUser(ctx, tx, actor, req)
			if err != nil {
				return err
			}
			made, err = insertToken(ctx, tx, actor, user, req, secret)
			return err
		})
	if err != nil {
		return viewsdb.TokensRow{}, "", err
	}
	return made, secret, nil
}

func findOrMakeUser(
	ctx context.Context, db database.DBTX, actor Identity, req TokenRequest,
) (authdb.UserInOrganizationRow, error) {
	// Two who make the same user at once do it one after the other.
	if _, err := database.New(db).LockOrganization(ctx, actor.OrganizationID); err != nil {
		return authdb.UserInOrganizationRow{}, xerrors.Errorf("lock organization: %w", err)
	}
	user, err := authdb.New(db).UserInOrganization(ctx,
		authdb.UserInOrganizationParams{OrganizationID: actor.OrganizationID, Name: req.User})
	switch {
	case err == nil && user.Role == database.RoleSystem:
		return user, Refuse(ErrForbidden, "user %s is the built-in identity: it can have no token", user.Name)
	case err == nil && user.DisabledAt != nil:
		return user, Refuse(ErrConflict, "user %s is disabled", user.Name)
	case err == nil && req.Role != "" && req.Role != user.Role:
		return user, Refuse(ErrConflict, "user %s exists with role %s, not %s: leave the role out", user.Name, user.Role,
			req.Role)
	case err == nil:
		return user, nil
	case !database.NoRows(err):
		return user, xerrors.Errorf("find user: %w", err)
	}
	req.Role = cmp.Or(req.Role, database.RoleMember)
	if req.Role == database.RoleSystem || !req.Role.Valid() {
		return user, Refuse(ErrInvalid, "role %q: use owner, template-admin, member or auditor", req.Role)
	}
	return makeUser(ctx, db, Entry{
		ActorID: actor.UserID, OrganizationID: actor.OrganizationID, Source: actor.Source,
	}, req.User, req.Role)
}

// makeUser makes a user with its membership, or a membership for one who exists in another organization.
func makeUser(
	ctx context.Context, db database.DBTX, by Entry, name string, role database.Role,
) (authdb.UserInOrganizationRow, error) {
	q := authdb.New(db)
	made := authdb.UserInOrganizationRow{ID: uuid.New(), Name: name, Role: role}
	existing, err := viewsdb.New(db).UserByName(ctx, name)
	switch {
	case err == nil && existing.DisabledAt != nil:
		return made, Refuse(ErrConflict, "user %s is disabled", name)
	case err == nil:
		made.ID = existing.ID
	case !database.NoRows(err):
		return made, xerrors.Errorf("find user: %w", err)
	default:
		if err := q.InsertUser(ctx, authdb.InsertUserParams{ID: made.ID, Name: name}); err != nil {
			return made, xerrors.Errorf("insert user: %w", err)
		}
	}
	err = q.InsertMembership(ctx,
		authdb.InsertMembershipParams{OrganizationID: by.OrganizationID, UserID: made.ID, Role: role})
	if err != nil {
		return made, xerrors.Errorf("insert membership: %w", err)
	}
	by.Action, by.TargetType, by.TargetID, by.TargetName = "user.create", "user", made.ID.String(), name
	by.After = map[string]any{"role": role}
	return made, Record(ctx, db, by)
}

// notRevoked is the error of a token that is made with one that was revoked meanwhile.
func notRevoked(err error) error {
	if database.NoRows(err) {
		return ErrUnauthenticated
	}
	return xerrors.Errorf("lock the token of this request: %w", err)
}

func insertToken(
	ctx context.Context, db database.DBTX, actor Identity, user authdb.UserInOrganizationRow, req TokenRequest,
	secret Secret,
) (viewsdb.TokensRow, error) {
	q := authdb.New(db)
	hash := secret.Hash()
	params := authdb.InsertTokenParams{
		ID: uuid.New(), UserID: user.ID, Name: req.Name, Hash: hash[:], Hint: secret.Hint(), CreatedBy: actor.UserID,
		NotAfter: actor.ExpiresAt,
	}
	if actor.TokenID != uuid.Nil { // a server at its start has none
		if _, err := q.LockToken(ctx, actor.TokenID); err != nil {
			return viewsdb.TokensRow{}, notRevoked(err)
		}
		params.MadeWith = uuid.NullUUID{UUID: actor.TokenID, Valid: true}
	}
	if req.ExpiresIn > 0 {
		seconds := req.ExpiresIn.Seconds()
		params.ExpiresInS = &seconds
	}
	row, err := q.InsertToken(ctx, params)
	if err != nil {
		return viewsdb.TokensRow{}, xerrors.Errorf("insert token: %w", err)
	}
	err = Record(ctx, db, Entry{
		ActorID: actor.UserID, OrganizationID: actor.OrganizationID, Action: "token.create", TargetType: "token",
		TargetID: row.ID.String(), TargetName: req.Name, Source: actor.Source,
		After: map[string]any{"user": user.Name, "role": user.Role, "expires_at": row.ExpiresAt},
	})
	return viewsdb.TokensRow{
		ID: row.ID, Name: req.Name, UserName: user.Name, Role: user.Role, Hint: params.Hint, CreatedAt: row.CreatedAt,
		ExpiresAt: row.ExpiresAt, MadeWith: params.MadeWith,
	}, err
}

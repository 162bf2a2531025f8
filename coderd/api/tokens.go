package api

import (
	"context"
	"net/http"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func (s *server) registerIdentity() {
	answer(s, operation{
		id: "whoami", method: http.MethodGet, path: "/whoami", action: auth.ActReadSelf, tag: "tokens",
		summary: "Say who the token speaks for",
	}, func(_ context.Context, who auth.Identity, _ *none) (sdk.Identity, error) {
		return identityOf(who), nil
	})
	answer(s, operation{
		id: "login", method: http.MethodPost, path: "/login", action: auth.ActLogin, tag: "tokens",
		summary: "Say who the token speaks for, on the record",
	}, func(ctx context.Context, who auth.Identity, _ *none) (sdk.Identity, error) {
		return identityOf(who), auth.RecordLogin(ctx, s.Store, who)
	})
}

func (s *server) registerTokens() {
	answer(s, operation{
		id: "list-tokens", method: http.MethodGet, path: "/tokens", action: auth.ActReadTokens, tag: "tokens",
		summary: "List one's own tokens; for owners and auditors, everybody's",
	}, s.listTokens)
	answer(s, operation{
		id: "create-token", method: http.MethodPost, path: "/tokens", action: auth.ActCreateToken, tag: "tokens",
		status:      http.StatusCreated,
		summary:     "Make a token, for oneself or, as an owner, for another user",
		description: "The answer is the only one that ever holds the secret. A token does not outlive the one it is made with.",
	}, s.createToken)
	act(s, operation{
		id: "revoke-token", method: http.MethodDelete, path: "/tokens/{token}", action: auth.ActRevokeToken,
		tag: "tokens", summary: "End a token, on all replicas within a second, and all that were made with it",
	}, s.revokeToken)
}

func (s *server) listTokens(ctx context.Context, who auth.Identity, _ *none) ([]sdk.Token, error) {
	rows, err := viewsdb.New(s.Store).Tokens(ctx, viewsdb.TokensParams{
		OrganizationID: who.OrganizationID, UserID: who.OnlyOwn(auth.ActReadTokens),
	})
	if err != nil {
		return nil, xerrors.Errorf("list tokens: %w", err)
	}
	return lists.Of(rows, tokenOf), nil
}

func (s *server) createToken(
	ctx context.Context, who auth.Identity, in *body[sdk.CreateTokenRequest],
) (sdk.CreatedToken, error) {
	expiresIn, err := parseEnd("expires_in", in.Body.ExpiresIn)
	if err != nil {
		return sdk.CreatedToken{}, err
	}
	row, secret, err := auth.CreateToken(ctx, s.Store, who, auth.TokenRequest{
		Name: in.Body.Name, User: in.Body.User, Role: database.Role(in.Body.Role), ExpiresIn: expiresIn,
	})
	if err != nil {
		return sdk.CreatedToken{}, err
	}
	return sdk.CreatedToken{Token: tokenOf(row), Secret: secret.Reveal()}, nil
}

type tokenInput struct {
	Ref string `path:"token" doc:"Name or id of the token"`
}

func (s *server) revokeToken(ctx context.Context, who auth.Identity, in *tokenInput) error {
	return auth.RevokeToken(ctx, s.Store, who, in.Ref)
}

// parseEnd reads how long something lasts; 0 where nothing is given, which is for ever.
func parseEnd(what, s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < time.Second {
		return 0, auth.Refuse(auth.ErrInvalid, "%s %q: write a duration like 30m or 720h, of at least a second", what, s)
	}
	return d, nil
}

func identityOf(who auth.Identity) sdk.Identity {
	return sdk.Identity{
		UserID: who.UserID, User: who.User, Organization: who.Organization, Role: string(who.Role), TokenID: who.TokenID,
		TokenName: who.TokenName, ExpiresAt: who.ExpiresAt,
	}
}

func tokenOf(row viewsdb.TokensRow) sdk.Token {
	return sdk.Token{
		ID: row.ID, Name: row.Name, User: row.UserName, Role: string(row.Role), Hint: row.Hint, CreatedAt: row.CreatedAt,
		ExpiresAt: row.ExpiresAt, LastUsedAt: row.LastUsedAt, RevokedAt: row.RevokedAt, MadeWith: idOrNil(row.MadeWith),
	}
}

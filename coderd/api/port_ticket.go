package api

import (
	"context"
	"errors"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
)

// A ticket is what lets a browser to one port of one claim: a link, which is good once and for a minute, and then a cookie. Both
// are signed with keys that every replica derives from the signing keys, one for each kind, so that neither is good as the other.

type ticketKind string

const (
	linkTicket   ticketKind = "prewarm/port-link"
	cookieTicket ticketKind = "prewarm/port-cookie"
)

const (
	// linkAge is how long a link may be used, once, and ticketAge how long its cookie lets in at most.
	linkAge   = time.Minute
	ticketAge = 12 * time.Hour
	// maxTicket bounds what is looked at, in bytes; a link has a path in it.
	maxTicket = 8 << 10
)

// ticket says who may reach which port, and with which token or session that was asked for.
type ticket struct {
	ID             uuid.UUID        `json:"jti"` // of the session that the link begins
	Expires        *jwt.NumericDate `json:"exp"`
	WorkspaceID    uuid.UUID        `json:"sub"`
	ClaimID        uuid.UUID        `json:"claim"`
	Port           int              `json:"port"`
	UserID         uuid.UUID        `json:"user"`
	OrganizationID uuid.UUID        `json:"org"`
	TokenID        uuid.UUID        `json:"token"`
	CredentialID   uuid.UUID        `json:"with"`           // the token, or the session of the page
	Path           string           `json:"path,omitempty"` // of a link: where it leads
}

var errNoTicket = errors.New("no ticket that is valid")

func (s *server) sign(ctx context.Context, kind ticketKind, t ticket) (string, error) {
	keys, err := s.Instances.Derive(ctx, string(kind))
	if err == nil && len(keys) == 0 {
		err = errors.New("there is no signing key")
	}
	if err != nil {
		return "", xerrors.Errorf("read the keys of links: %w", err)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: keys[0]}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return "", xerrors.Errorf("make signer of links: %w", err)
	}
	signed, err := jwt.Signed(signer).Claims(t).Serialize()
	if err != nil {
		return "", xerrors.Errorf("sign link: %w", err)
	}
	return signed, nil
}

// verify is errNoTicket for what is not ours, of another kind, or over.
func (s *server) verify(ctx context.Context, kind ticketKind, signed string) (t ticket, err error) {
	if len(signed) > maxTicket {
		return t, errNoTicket
	}
	parsed, err := jwt.ParseSigned(signed, []jose.SignatureAlgorithm{jose.HS256})
	if err != nil {
		return t, errNoTicket
	}
	keys, err := s.Instances.Derive(ctx, string(kind))
	if err != nil {
		return t, xerrors.Errorf("read the keys of links: %w", err)
	}
	for _, key := range keys {
		t = ticket{}
		if parsed.Claims(key, &t) == nil && t.Expires != nil && s.Clock.Now("api", "ticket").Before(t.Expires.Time()) {
			return t, nil
		}
	}
	return ticket{}, errNoTicket
}

// holder is who a ticket lets in, while what it was made with is valid. also are sessions that must be too.
func (s *server) holder(ctx context.Context, t ticket, also ...uuid.UUID) (auth.Identity, error) {
	role, err := auth.RoleNow(ctx, s.Store, t.OrganizationID, append(also, t.CredentialID)...)
	if errors.Is(err, auth.ErrUnauthenticated) {
		err = errNoTicket
	}
	return auth.Identity{
		Principal:  auth.Principal{UserID: t.UserID, TokenID: t.TokenID, CredentialID: t.CredentialID},
		Membership: auth.Membership{OrganizationID: t.OrganizationID, Role: role},
	}, err
}

// admits says whether a ticket is for that port of a claim.
func (t ticket) admits(e entrance, port int) bool {
	return t.WorkspaceID == e.ID && e.ClaimID.Valid && t.ClaimID == e.ClaimID.UUID && t.Port == port
}

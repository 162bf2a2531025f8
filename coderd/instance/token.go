package instance

import (
	"context"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/google/uuid"
	"golang.org/x/xerrors"
)

// Bearer is what a token says of who holds it.
type Bearer struct {
	WorkspaceID uuid.UUID
	Incarnation int32
	Attempt     int32
	KeyID       uuid.UUID // that signed it
}

// payload is a Bearer on the wire.
type payload struct {
	Issuer      string          `json:"iss"`
	IssuedAt    jwt.NumericDate `json:"iat"`
	WorkspaceID uuid.UUID       `json:"sub"`
	Incarnation int32           `json:"inc"`
	Attempt     int32           `json:"att"`
}

const issuer = "prewarm/instance"

// sign makes a token with the newest key, and says which that was.
func (s *Service) sign(ctx context.Context, b Bearer) (string, uuid.UUID, error) {
	key, err := s.keys.newest(ctx)
	if err != nil {
		return "", uuid.Nil, err
	}
	token, err := encode(key, b, *jwt.NewNumericDate(s.Clock.Now("instance", "sign")))
	return token, key.ID, err
}

func encode(key signingKey, b Bearer, at jwt.NumericDate) (string, error) {
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: key.secret},
		(&jose.SignerOptions{}).WithType("JWT").WithHeader("kid", key.ID.String()))
	if err != nil {
		return "", xerrors.Errorf("make signer: %w", err)
	}
	token, err := jwt.Signed(signer).Claims(payload{
		Issuer: issuer, IssuedAt: at, WorkspaceID: b.WorkspaceID, Incarnation: b.Incarnation, Attempt: b.Attempt,
	}).Serialize()
	if err != nil {
		return "", xerrors.Errorf("sign instance token: %w", err)
	}
	return token, nil
}

// verify reads a token. What is wrong with one whose signature is not ours is nobody's business.
func (s *Service) verify(ctx context.Context, token string) (Bearer, error) {
	parsed, err := jwt.ParseSigned(token, []jose.SignatureAlgorithm{jose.HS256})
	if err != nil || len(parsed.Headers) != 1 {
		return Bearer{}, ErrNotAToken
	}
	keyID, err := uuid.Parse(parsed.Headers[0].KeyID)
	if err != nil {
		return Bearer{}, ErrNotAToken
	}
	key, found, err := s.keys.find(ctx, keyID)
	if err != nil {
		return Bearer{}, err
	}
	var p payload
	if !found || parsed.Claims(key.secret, &p) != nil || p.Issuer != issuer {
		return Bearer{}, refuse("the instance token is not valid: its signature is of no key in use")
	}
	return Bearer{WorkspaceID: p.WorkspaceID, Incarnation: p.Incarnation, Attempt: p.Attempt, KeyID: keyID}, nil
}

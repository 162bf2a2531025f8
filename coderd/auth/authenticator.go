package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/coder/quartz"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/authdb"
)

const (
	// cacheAge is how old an answer may be. It counts from before the lookup, so that a revocation, which must hold on
	// every replica within a second, holds half a second after its commit plus the time of one request.
	cacheAge = 500 * time.Millisecond
	// Bounds of the two caches. Unknown tokens have one of their own: a flood of them must not push out the known.
	maxKnown   = 10_000
	maxUnknown = 1_000
)

// ErrUnauthenticated: the token is unknown, expired or revoked, or its user disabled. Which one is nobody's business.
var ErrUnauthenticated = errors.New("the token is not valid: unknown, expired or revoked")

// Authenticator tells who a token, or a session that stands for one, speaks for. It is safe for concurrent use.
type Authenticator struct {
	store *database.Store
	clock quartz.Clock

	mu      sync.Mutex
	known   cache
	unknown cache
}

// NewAuthenticator makes one for a replica.
func NewAuthenticator(store *database.Store, clock quartz.Clock) *Authenticator {
	return &Authenticator{store: store, clock: clock, known: newCache(maxKnown), unknown: newCache(maxUnknown)}
}

// Authenticate returns ErrUnauthenticated for a token that is not valid; other errors are the database's.
func (a *Authenticator) Authenticate(ctx context.Context, token Secret) (Principal, error) {
	return a.authenticate(ctx, token, tokenPrefix)
}

// Session is Authenticate for what a browser holds, which is good for nothing else.
func (a *Authenticator) Session(ctx context.Context, session Secret) (Principal, error) {
	return a.authenticate(ctx, session, sessionPrefix)
}

func (a *Authenticator) authenticate(ctx context.Context, secret Secret, prefix string) (Principal, error) {
	if !secret.wellFormed(prefix) {
		return Principal{}, ErrUnauthenticated
	}
	hash := secret.Hash()
	now := a.clock.Now("auth", "lookup")
	if p, ok, err := a.cached(hash, now); ok {
		return p, err
	}
	p, err := a.lookup(ctx, hash)
	if err != nil && !errors.Is(err, ErrUnauthenticated) {
		return Principal{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil {
		a.known.remove(hash)
		a.unknown.put(hash, Principal{}, now)
		return Principal{}, err
	}
	a.known.put(hash, p, now)
	return p, nil
}

// Forget makes the next answer for that secret a fresh one on this replica.
func (a *Authenticator) Forget(secret Secret) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known.remove(secret.Hash())
}

func (a *Authenticator) cached(hash [sha256.Size]byte, now time.Time) (p Principal, ok bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if p, ok := a.known.get(hash, now); ok {
		return p, true, nil
	}
	if _, ok := a.unknown.get(hash, now); ok {
		return Principal{}, true, ErrUnauthenticated
	}
	return Principal{}, false, nil
}

func (a *Authenticator) lookup(ctx context.Context, hash [sha256.Size]byte) (Principal, error) {
	rows, err := authdb.New(a.store).TokenPrincipal(ctx, hash[:])
	if err != nil {
		return Principal{}, xerrors.Errorf("look up token: %w", err)
	}
	if len(rows) == 0 {
		return Principal{}, ErrUnauthenticated
	}
	first := rows[0]
	if first.Touch {
		if err := authdb.New(a.store).TouchToken(ctx, first.TokenID); err != nil {
			return Principal{}, xerrors.Errorf("touch token: %w", err)
		}
	}
	p := Principal{
		UserID: first.UserID, User: first.UserName, TokenID: first.TokenID, TokenName: first.TokenName,
		ExpiresAt: first.ExpiresAt, CredentialID: first.CredentialID,
	}
	for _, r := range rows {
		p.Memberships = append(p.Memberships,
			Membership{OrganizationID: r.OrganizationID, Organization: r.Organization, Role: r.Role})
	}
	return p, nil
}

package instance

import (
	"context"
	"crypto/rand"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/seal"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/instancedb"
)

const keyBytes = 32

// sealer keeps what signs tokens from who reads the database.
type sealer struct {
	keys *seal.Keys // nil: no key is or will be sealed
	on   bool       // keys that are made are sealed
}

// signingKey signs tokens and verifies them; err is why this replica can't.
type signingKey struct {
	ID     uuid.UUID
	secret []byte
	err    error
}

func about(id uuid.UUID) string { return "signing key " + id.String() }

// row is how a secret is stored.
func (s sealer) row(id uuid.UUID, secret []byte) (instancedb.InsertSigningKeyParams, error) {
	row := instancedb.InsertSigningKeyParams{ID: id, Secret: secret}
	if !s.on {
		return row, nil
	}
	sealed, by, err := s.keys.Seal(secret, about(id))
	if err != nil {
		return row, xerrors.Errorf("seal signing key: %w", err)
	}
	row.Secret, row.Sealed, row.SealedBy = newSecret(), sealed, &by
	return row, nil
}

func (s sealer) open(row database.SigningKey) signingKey {
	key := signingKey{ID: row.ID, secret: row.Secret}
	switch {
	case row.SealedBy == nil:
	case s.keys == nil:
		key.secret, key.err = nil, xerrors.Errorf("open signing key %s: this server has no encryption keys", row.ID)
	default:
		if key.secret, key.err = s.keys.Open(row.Sealed, *row.SealedBy, about(row.ID)); key.err != nil {
			key.err = xerrors.Errorf("open signing key %s: %w", row.ID, key.err)
		}
	}
	return key
}

// Reseal seals the signing keys with the first encryption key, whose id that is, and says how many were not: those in plain
// too, where keys are sealed. What they have signed stays good.
func (s *Service) Reseal(ctx context.Context, db database.DBTX, first string) (n int, err error) {
	q := instancedb.New(db)
	rows, err := q.LockSigningKeys(ctx)
	if err != nil {
		return 0, xerrors.Errorf("read signing keys: %w", err)
	}
	for _, row := range rows {
		if !s.keys.on && row.SealedBy == nil || row.SealedBy != nil && *row.SealedBy == first {
			continue
		}
		key := s.keys.open(row)
		if key.err != nil {
			return 0, key.err
		}
		sealed, err := sealer{s.keys.keys, true}.row(row.ID, key.secret)
		if err != nil {
			return 0, err
		}
		err = q.SealSigningKey(ctx, instancedb.SealSigningKeyParams{
			ID: row.ID, Secret: sealed.Secret, Sealed: sealed.Sealed, SealedBy: sealed.SealedBy,
		})
		if err != nil {
			return 0, xerrors.Errorf("write signing key: %w", err)
		}
		n++
	}
	return n, nil
}

// InPlain says how many signing keys in use whoever reads the database has.
func (s *Service) InPlain(ctx context.Context) (n int, err error) {
	rows, err := instancedb.New(s.Store).SigningKeys(ctx)
	for _, row := range rows {
		if row.SealedBy == nil {
			n++
		}
	}
	return n, err
}

func newSecret() []byte {
	secret := make([]byte, keyBytes)
	_, _ = rand.Read(secret) // never fails: the program ends where there is no randomness
	return secret
}

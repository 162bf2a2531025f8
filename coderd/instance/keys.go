package instance

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
)

const (
	keyBytes = 32
	// keysAge is how old a view of the keys may be, and so how long a retired one may still be good somewhere.
	keysAge = time.Second
	// keysAgain is how soon they are read again for a key that is not among them.
	keysAgain = 100 * time.Millisecond
)

// keyring is one replica's view of the signing keys.
type keyring struct {
	store *database.Store
	clock quartz.Clock

	mu   sync.Mutex
	keys []database.SigningKey // newest first
	at   time.Time             // when they were asked for
}

// newest is the key that signs; the first one is made here.
func (k *keyring) newest(ctx context.Context) (database.SigningKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.refresh(ctx, keysAge); err != nil {
		return database.SigningKey{}, err
	}
	if len(k.keys) == 0 {
		err := k.store.EnsureSigningKey(ctx, database.EnsureSigningKeyParams{ID: uuid.New(), Secret: newSecret()})
		if err != nil {
			return database.SigningKey{}, xerrors.Errorf("make first signing key: %w", err)
		}
		if err := k.refresh(ctx, 0); err != nil {
			return database.SigningKey{}, err
		}
	}
	if len(k.keys) == 0 {
		return database.SigningKey{}, xerrors.New("find signing key: there is none")
	}
	return k.keys[0], nil
}

// find looks a key up by the id in a token's header; false if there is none that verifies.
func (k *keyring) find(ctx context.Context, id uuid.UUID) (database.SigningKey, bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, age := range []time.Duration{keysAge, keysAgain} {
		if err := k.refresh(ctx, age); err != nil {
			return database.SigningKey{}, false, err
		}
		for _, key := range k.keys {
			if key.ID == id {
				return key, true, nil
			}
		}
	}
	return database.SigningKey{}, false, nil
}

// forget makes the next look a fresh one.
func (k *keyring) forget() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.at = time.Time{}
}

// refresh reads the keys if the view is older than age. The age counts from before the question. The caller locks.
func (k *keyring) refresh(ctx context.Context, age time.Duration) error {
	now := k.clock.Now("instance", "keys")
	if !k.at.IsZero() && now.Sub(k.at) < age {
		return nil
	}
	keys, err := k.store.SigningKeys(ctx)
	if err != nil {
		return xerrors.Errorf("read signing keys: %w", err)
	}
	k.keys, k.at = keys, now
	return nil
}

func newSecret() []byte {
	secret := make([]byte, keyBytes)
	_, _ = rand.Read(secret) // never fails: the program ends where there is no randomness
	return secret
}

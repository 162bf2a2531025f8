package instance

import (
	"context"
	"crypto/rand"
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

	// turn holds what follows in its one place. It is taken during questions to the database, so waiting for it ends
	// with the context.
	turn chan *keys
}

type keys struct {
	known []database.SigningKey // newest first
	at    time.Time             // when they were asked for
}

func newKeyring(store *database.Store, clock quartz.Clock) *keyring {
	k := &keyring{store: store, clock: clock, turn: make(chan *keys, 1)}
	k.turn <- &keys{}
	return k
}

func (k *keyring) take(ctx context.Context) (*keys, error) {
	select {
	case taken := <-k.turn:
		return taken, nil
	case <-ctx.Done():
		return nil, xerrors.Errorf("wait for the signing keys: %w", ctx.Err())
	}
}

// newest is the key that signs; the first one is made here.
func (k *keyring) newest(ctx context.Context) (database.SigningKey, error) {
	keys, err := k.take(ctx)
	if err != nil {
		return database.SigningKey{}, err
	}
	defer func() { k.turn <- keys }()
	if err := k.refresh(ctx, keys, keysAge); err != nil {
		return database.SigningKey{}, err
	}
	if len(keys.known) == 0 {
		err := k.store.EnsureSigningKey(ctx, database.EnsureSigningKeyParams{ID: uuid.New(), Secret: newSecret()})
		if err != nil {
			return database.SigningKey{}, xerrors.Errorf("make first signing key: %w", err)
		}
		if err := k.refresh(ctx, keys, 0); err != nil {
			return database.SigningKey{}, err
		}
	}
	if len(keys.known) == 0 {
		return database.SigningKey{}, xerrors.New("find signing key: there is none")
	}
	return keys.known[0], nil
}

// find looks a key up by the id in a token's header; false if there is none that verifies.
func (k *keyring) find(ctx context.Context, id uuid.UUID) (database.SigningKey, bool, error) {
	keys, err := k.take(ctx)
	if err != nil {
		return database.SigningKey{}, false, err
	}
	defer func() { k.turn <- keys }()
	for _, age := range []time.Duration{keysAge, keysAgain} {
		if err := k.refresh(ctx, keys, age); err != nil {
			return database.SigningKey{}, false, err
		}
		for _, key := range keys.known {
			if key.ID == id {
				return key, true, nil
			}
		}
	}
	return database.SigningKey{}, false, nil
}

// forget makes the next look a fresh one.
func (k *keyring) forget() {
	keys := <-k.turn
	keys.at = time.Time{}
	k.turn <- keys
}

// refresh reads the keys if the view is older than age. The age counts from before the question.
func (k *keyring) refresh(ctx context.Context, keys *keys, age time.Duration) error {
	now := k.clock.Now("instance", "keys")
	if !keys.at.IsZero() && now.Sub(keys.at) < age {
		return nil
	}
	known, err := k.store.SigningKeys(ctx)
	if err != nil {
		return xerrors.Errorf("read signing keys: %w", err)
	}
	keys.known, keys.at = known, now
	return nil
}

func newSecret() []byte {
	secret := make([]byte, keyBytes)
	_, _ = rand.Read(secret) // never fails: the program ends where there is no randomness
	return secret
}

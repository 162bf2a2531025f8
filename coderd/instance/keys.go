package instance

import (
	"context"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/instancedb"
)

const (
	// keysAge is how old a view of the keys may be, and so how long a retired one may still be good somewhere.
	keysAge = time.Second
	// keysAgain is how soon they are read again for a key that is not among them.
	keysAgain = 100 * time.Millisecond
)

// keyring is one replica's view of the signing keys.
type keyring struct {
	sealer
	store *database.Store
	clock quartz.Clock

	// turn holds what follows in its one place. It is taken during questions to the database, so waiting for it ends
	// with the context.
	turn chan *keys
}

type keys struct {
	known []signingKey // newest first
	at    time.Time    // when they were asked for
}

func newKeyring(store *database.Store, sealer sealer, clock quartz.Clock) *keyring {
	k := &keyring{sealer: sealer, store: store, clock: clock, turn: make(chan *keys, 1)}
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
func (k *keyring) newest(ctx context.Context) (signingKey, error) {
	keys, err := k.take(ctx)
	if err != nil {
		return signingKey{}, err
	}
	defer func() { k.turn <- keys }()
	if err := k.refresh(ctx, keys, keysAge); err != nil {
		return signingKey{}, err
	}
	if len(keys.known) == 0 {
		made, err := k.row(uuid.New(), newSecret())
		if err != nil {
			return signingKey{}, err
		}
		if err := instancedb.New(k.store).EnsureSigningKey(ctx, instancedb.EnsureSigningKeyParams(made)); err != nil {
			return signingKey{}, xerrors.Errorf("make first signing key: %w", err)
		}
		if err := k.refresh(ctx, keys, 0); err != nil {
			return signingKey{}, err
		}
	}
	if len(keys.known) == 0 {
		return signingKey{}, xerrors.New("find signing key: there is none")
	}
	return keys.known[0], keys.known[0].err
}

// find looks a key up by the id in a token's header; false if there is none that verifies.
func (k *keyring) find(ctx context.Context, id uuid.UUID) (signingKey, bool, error) {
	keys, err := k.take(ctx)
	if err != nil {
		return signingKey{}, false, err
	}
	defer func() { k.turn <- keys }()
	for _, age := range []time.Duration{keysAge, keysAgain} {
		if err := k.refresh(ctx, keys, age); err != nil {
			return signingKey{}, false, err
		}
		for _, key := range keys.known {
			if key.ID == id {
				return key, true, key.err
			}
		}
	}
	return signingKey{}, false, nil
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
	rows, err := instancedb.New(k.store).SigningKeys(ctx)
	if err != nil {
		return xerrors.Errorf("read signing keys: %w", err)
	}
	keys.known, keys.at = lists.Of(rows, k.open), now
	return nil
}

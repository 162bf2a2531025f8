package provider

import (
	"cmp"
	"context"
	"sync"
)

// Turns is TurnsOf names.
type Turns = TurnsOf[string]

// TurnsOf has callers of one key come one after another, or some at once. The zero value is ready for use, and it is safe for
// concurrent use.
type TurnsOf[K comparable] struct {
	AtOnce int // how many turns of one key there are at once; one where 0

	mu   sync.Mutex
	keys map[K]*turn
}

// turn is there for as long as somebody wants the key.
type turn struct {
	taken chan struct{}
	users int
}

// Take waits for the key, until ctx ends; its error is that of ctx. Call done when the turn is over.
func (t *TurnsOf[K]) Take(ctx context.Context, key K) (done func(), err error) {
	t.mu.Lock()
	if t.keys == nil {
		t.keys = map[K]*turn{}
	}
	k := t.keys[key]
	if k == nil {
		k = &turn{taken: make(chan struct{}, cmp.Or(t.AtOnce, 1))}
		t.keys[key] = k
	}
	k.users++
	t.mu.Unlock()

	leave := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(t.keys, key)
		}
	}
	select {
	case k.taken <- struct{}{}:
		return func() { <-k.taken; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

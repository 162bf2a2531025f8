package provider

import (
	"context"
	"sync"
)

// Turns has callers of one key come one after another. The zero value is ready for use, and it is safe for concurrent use.
type Turns struct {
	mu   sync.Mutex
	keys map[string]*turn
}

// turn is there for as long as somebody wants the key.
type turn struct {
	taken chan struct{}
	users int
}

// Take waits for the key, until ctx ends; its error is that of ctx. Call done when the turn is over.
func (t *Turns) Take(ctx context.Context, key string) (done func(), err error) {
	t.mu.Lock()
	if t.keys == nil {
		t.keys = map[string]*turn{}
	}
	k := t.keys[key]
	if k == nil {
		k = &turn{taken: make(chan struct{}, 1)}
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

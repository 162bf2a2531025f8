package external

import (
	"context"
	"sync"
)

// keyLock is a lock for each key, for as long as somebody wants it.
type keyLock struct {
	mu   sync.Mutex
	keys map[string]*keyed
}

type keyed struct {
	turn  chan struct{}
	users int
}

// lock waits for the key, until ctx ends.
func (l *keyLock) lock(ctx context.Context, key string) (unlock func(), err error) {
	l.mu.Lock()
	if l.keys == nil {
		l.keys = map[string]*keyed{}
	}
	k := l.keys[key]
	if k == nil {
		k = &keyed{turn: make(chan struct{}, 1)}
		l.keys[key] = k
	}
	k.users++
	l.mu.Unlock()

	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(l.keys, key)
		}
	}
	select {
	case k.turn <- struct{}{}:
		return func() { <-k.turn; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

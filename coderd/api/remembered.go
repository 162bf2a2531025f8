package api

import "sync"

// mostRemembered is how many values of one kind are remembered at most. One more, and all others are forgotten.
const mostRemembered = 10_000

// remembered is what was read a while ago, and need not be read again. The zero value is ready for use.
type remembered[K comparable, V any] struct {
	mu sync.Mutex
	of map[K]V
}

func (r *remembered[K, V]) get(key K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.of[key]
	return v, ok
}

func (r *remembered[K, V]) put(key K, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil || len(r.of) >= mostRemembered {
		r.of = map[K]V{}
	}
	r.of[key] = v
}

func (r *remembered[K, V]) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.of)
}

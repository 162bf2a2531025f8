package hints

import (
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"
)

// Todo is what a loop is to look at, by ids, each once however often it is added. Nothing of it is stored: behind it is a look at
// everything, now and then. It is safe for concurrent use.
type Todo struct {
	Wake Bell // of the loop that takes

	mu  sync.Mutex
	ids map[uuid.UUID]struct{}
}

// NewTodo returns one with nothing in it.
func NewTodo() *Todo { return &Todo{Wake: NewBell(), ids: map[uuid.UUID]struct{}{}} }

// Add never blocks.
func (t *Todo) Add(ids ...uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range ids {
		t.ids[id] = struct{}{}
	}
	t.Wake.Ring()
}

// Take returns what was added since the last Take.
func (t *Todo) Take() []uuid.UUID {
	t.mu.Lock()
	defer t.mu.Unlock()
	ids := slices.Collect(maps.Keys(t.ids))
	clear(t.ids)
	return ids
}

package api

import (
	"context"
	"sync"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// mostLooks is how many workspaces are looked for at once for one user; for all of whom nobody knows, too. Thousands of requests that
// come at once would else have all of the database's connections: others would wait, and the watch over what goes on would find the
// database away.
const mostLooks = 4

// looks are the users for whom workspaces are looked for. The zero value is ready for use.
type looks struct {
	mu sync.Mutex
	of map[uuid.UUID]*look
}

type look struct {
	waiting int // and looking; by the mutex of looks
	turns   chan struct{}
}

// entrance reads a workspace to enter, when it is the user's turn.
func (s *server) entrance(ctx context.Context, user uuid.UUID, of viewsdb.EntranceParams) (viewsdb.EntranceRow, error) {
	done, err := s.looks.begin(ctx, user)
	if err != nil {
		return viewsdb.EntranceRow{}, err
	}
	defer done()
	return viewsdb.New(s.Store).Entrance(ctx, of)
}

func (l *looks) begin(ctx context.Context, user uuid.UUID) (done func(), err error) {
	l.mu.Lock()
	one := l.of[user]
	if one == nil {
		if l.of == nil {
			l.of = map[uuid.UUID]*look{}
		}
		one = &look{turns: make(chan struct{}, mostLooks)}
		l.of[user] = one
	}
	one.waiting++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.waiting--; one.waiting == 0 {
			delete(l.of, user)
		}
	}
	select {
	case one.turns <- struct{}{}:
		return func() { <-one.turns; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

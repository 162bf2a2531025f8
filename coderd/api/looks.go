package api

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const (
	// mostLooks is how many workspaces are looked for at once for one user; for all of whom nobody knows, too. Thousands of requests
	// that come at once would else have all of the database's connections, and others would wait.
	mostLooks = 16
	// keptFor is how old what was found may be for the next request: a page that loads asks for many files at once. What goes on in a
	// workspace ends no sooner either after a release at another replica.
	keptFor  = 200 * time.Millisecond
	mostKept = 10_000
)

// looks are the users for whom workspaces are looked for, and what was found a moment ago. The zero value is ready for use.
type looks struct {
	mu   sync.Mutex
	of   map[uuid.UUID]*look
	kept map[kept]found
}

type look struct {
	waiting int // and looking; by the mutex of looks
	turns   chan struct{}
}

// kept is what a workspace was looked for by.
type kept struct {
	organization, id uuid.NullUUID
	name             string
}

type found struct {
	row  viewsdb.EntranceRow
	at   time.Time
	ends uint64 // claims that had ended on this replica
}

// entrance reads a workspace to enter, when it is the user's turn, or has found it a moment ago.
func (s *server) entrance(ctx context.Context, user uuid.UUID, of viewsdb.EntranceParams) (viewsdb.EntranceRow, error) {
	if s.Tunnels == nil {
		return viewsdb.New(s.Store).Entrance(ctx, of)
	}
	by := kept{organization: of.OrganizationID, id: of.ID}
	if of.Name != nil {
		by.name = *of.Name
	}
	now := found{at: s.Clock.Now("api", "entrance"), ends: s.Tunnels.Ends()} // before the read
	if row, ok := s.looks.again(by, now); ok {
		return row, nil
	}
	done, err := s.looks.begin(ctx, user)
	if err != nil {
		return viewsdb.EntranceRow{}, err
	}
	defer done()
	if now.row, err = viewsdb.New(s.Store).Entrance(ctx, of); err == nil {
		s.looks.keep(by, now)
	}
	return now.row, err
}

// again is what was found by this a moment ago, unless a claim has ended since.
func (l *looks) again(by kept, now found) (viewsdb.EntranceRow, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, ok := l.kept[by]
	return before.row, ok && before.ends == now.ends && now.at.Sub(before.at) < keptFor
}

// keep keeps a workspace that can be entered now, by the user of its claim alone: what is open to others can be closed at any time,
// and then nothing begins any more.
func (l *looks) keep(by kept, now found) {
	if now.row.State != database.WorkspaceStateClaimed || now.row.TunnelID == uuid.Nil ||
		len(now.row.Enter) > 0 || len(now.row.PublicPorts) > 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept == nil || len(l.kept) >= mostKept {
		l.kept = map[kept]found{}
	}
	l.kept[by] = now
}

// forget has all looked for again: what was found does not hold any more.
func (l *looks) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.kept)
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

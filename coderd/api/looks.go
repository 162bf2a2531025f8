package api

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

const (
	// mostLooks is how many workspaces are looked for at once for one user; for all of whom nobody knows, too. Thousands of requests
	// that come at once would else have all of the database's connections, and others would wait.
	mostLooks = 16
	// keptFor is how old what was found may be for the next request: a page that loads asks for many files at once. What goes on in a
	// workspace ends no sooner either after a release at another replica.
	keptFor = 200 * time.Millisecond
)

// looks are workspaces that were found a moment ago. The zero value is ready for use.
type looks struct{ remembered[kept, found] }

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

func lookTurns() *provider.TurnsOf[uuid.UUID] { return &provider.TurnsOf[uuid.UUID]{AtOnce: mostLooks} }

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
	done, err := s.turns.Take(ctx, user)
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
	before, ok := l.get(by)
	return before.row, ok && before.ends == now.ends && now.at.Sub(before.at) < keptFor
}

// keep keeps a workspace that can be entered now, by the user of its claim alone: what is open to others can be closed at any time,
// and then nothing begins any more.
func (l *looks) keep(by kept, now found) {
	if now.row.State != database.WorkspaceStateClaimed || now.row.TunnelID == uuid.Nil ||
		len(now.row.Enter) > 0 || len(now.row.PublicPorts) > 0 {
		return
	}
	l.put(by, now)
}

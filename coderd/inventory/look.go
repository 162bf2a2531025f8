package inventory

import (
	"context"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inventorydb"
)

// Judged is an entry with what inventories have said of it so far, and what follows.
type Judged struct {
	Entry
	Since time.Time // when an inventory first found it; zero: none has
	Seen  int       // inventories in a row that have
	Next  string    // what follows, for people; empty: nothing
}

// Look compares both sides of one provider now, and changes nothing: what `prewarm inventory` shows. tell gets the entries
// in the order of workspace ids, which count only if there is no error; that of a provider that gives no complete answer is
// its call's.
func (s *Service) Look(ctx context.Context, name string, tell func(Judged)) (site string, err error) {
	p, site, err := s.find(name)
	if err != nil {
		return "", err
	}
	now, err := database.New(s.Store).GetNow(ctx)
	if err != nil {
		return site, xerrors.Errorf("read the time: %w", err)
	}
	settings, err := inventorydb.New(s.Store).InventorySettings(ctx, name)
	if err != nil {
		return site, xerrors.Errorf("read settings of provider: %w", err)
	}
	rows, err := inventorydb.New(s.Store).FindingsOf(ctx, inventorydb.FindingsOfParams{Provider: name, Site: site})
	if err != nil {
		return site, xerrors.Errorf("read findings: %w", err)
	}
	found := lists.Keyed(rows, func(row inventorydb.FindingsOfRow) (key, inventorydb.FindingsOfRow) {
		return key{row.Subject, row.Verdict}, row
	})
	_, err = s.compare(ctx, name, p, site, now, func(e Entry) {
		f := found[key{e.Subject(), string(e.Verdict)}]
		tell(Judged{Entry: e, Since: f.FirstAt, Seen: int(f.Seen), Next: next(e, settings.Confirmed)})
	})
	return site, err
}

// next is what follows from an entry once two inventories agree on it.
func next(e Entry, confirmed bool) string {
	switch {
	case e.Verdict == Orphan && !confirmed:
		return "would be deleted: the provider is not confirmed"
	case e.Verdict == Contradiction && e.Workspace != nil && e.Workspace.State == database.WorkspaceStateClaimed:
		return follows[Unknown].next
	}
	return follows[e.Verdict].next
}

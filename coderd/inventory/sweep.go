// Package inventory compares what providers have with what the database says.
//
// Today it sweeps orphans (I4): a resource with this installation's tag whose workspace is deleted, or lives on another
// site after its create was begun anew there, or has its own resource beside this one, is deleted. Such a resource is
// what a create made after its clean-up, or on a machine that was away, or twice. A resource whose workspace has no row at all is left alone and reported: rows are kept for
// days, so that is no orphan of ours but a database that was put back.
package inventory

import (
	"context"
	"slices"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	every    = time.Minute
	deadline = 30 * time.Second // of one provider's sweep
)

// Sweeper removes orphans.
type Sweeper struct {
	Store        *database.Store
	Providers    *provider.Registry
	Clock        quartz.Clock
	Log          slog.Logger
	Installation uuid.UUID
}

// Run sweeps every provider at once and then each minute, until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	ticker := s.Clock.NewTicker(every, "inventory", "sweep")
	defer ticker.Stop()
	for {
		for _, name := range s.Providers.Names() {
			if _, err := s.Sweep(ctx, name); err != nil && ctx.Err() == nil {
				s.Log.Warn(ctx, "sweep orphans", slog.F("provider", name), slog.Error(err))
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Sweep removes the orphans of one provider and returns how many there were. The listing comes before the reading of
// rows, and rows before resources, so that nothing young is mistaken for an orphan.
func (s *Sweeper) Sweep(ctx context.Context, name string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	p, err := s.Providers.Get(name)
	if err != nil {
		return 0, err
	}
	site := ""
	if sited, ok := provider.As[provider.Sited](p); ok {
		site = sited.Site()
	}
	found, err := p.List(ctx, s.Installation)
	if err != nil {
		return 0, xerrors.Errorf("list resources: %w", err)
	}
	ids := make([]uuid.UUID, 0, len(found))
	for _, inst := range found {
		ids = append(ids, inst.Tags.WorkspaceID)
	}
	rows, err := s.Store.WorkspacePlaces(ctx, ids)
	if err != nil {
		return 0, xerrors.Errorf("read workspaces: %w", err)
	}
	places := make(map[uuid.UUID]database.WorkspacePlacesRow, len(rows))
	for _, row := range rows {
		places[row.ID] = row
	}
	removed := 0
	for _, inst := range found {
		row, known := places[inst.Tags.WorkspaceID]
		switch {
		case !known || row.Name != inst.Name:
			s.Log.Warn(ctx, "resource of an unknown workspace is left alone", slog.F("provider", name),
				slog.F("resource", inst.Name), slog.F("workspace_id", inst.Tags.WorkspaceID))
			continue
		case row.State == database.WorkspaceStateDeleted:
		case site != "" && row.Site != "" && row.Site != site:
		case inst.ProviderID != row.ProviderID && slices.ContainsFunc(found, isResourceOf(row)): // a twin
		default:
			continue
		}
		if err := p.Delete(ctx, provider.Ref{Name: inst.Name, ProviderID: inst.ProviderID, WorkspaceID: inst.Tags.WorkspaceID}); err != nil {
			s.Log.Warn(ctx, "delete an orphan", slog.F("provider", name), slog.F("resource", inst.Name), slog.Error(err))
			continue
		}
		removed++
		s.Log.Info(ctx, "removed an orphan", slog.F("provider", name), slog.F("resource", inst.Name),
			slog.F("workspace_state", row.State))
	}
	return removed, nil
}

// isResourceOf says whether an instance is the one that the database has for a workspace. Not every provider says the
// same id when it creates and when it lists, so that another id alone proves nothing.
func isResourceOf(row database.WorkspacePlacesRow) func(provider.Instance) bool {
	return func(inst provider.Instance) bool {
		return row.ProviderID != "" && inst.ProviderID == row.ProviderID && inst.Tags.WorkspaceID == row.ID
	}
}

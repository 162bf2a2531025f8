package inventory

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/inventorydb"
)

// longestDriftLook is how long a look at one workspace may take.
const longestDriftLook = 10 * time.Minute

// lookForDrift looks at the workspaces of a provider that are due, one after the other. Other replicas look at others meanwhile. It
// changes nothing at the provider, so that nothing has to be proven before.
func (s *Service) lookForDrift(ctx context.Context, name string) error {
	for ctx.Err() == nil {
		p, err := s.Providers.Get(name) // each time: its configuration may be another by now
		if err != nil {
			return nil //nolint:nilerr // the inventory says so
		}
		every := provider.DriftEvery(p)
		if every <= 0 {
			return nil
		}
		due, err := inventorydb.New(s.Store).BeginDriftLook(ctx, inventorydb.BeginDriftLookParams{Provider: name, EveryS: every.Seconds()})
		if err != nil {
			return xerrors.Errorf("begin a look: %w", err)
		}
		if len(due) == 0 {
			return nil
		}
		d, _ := provider.As[provider.Drifter](p)
		if err := s.driftOf(ctx, d, due[0]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) driftOf(ctx context.Context, d provider.Drifter, due inventorydb.BeginDriftLookRow) error {
	look, cancel := context.WithTimeout(ctx, longestDriftLook)
	defer cancel()
	found, err := d.Drift(look, provider.Ref{Name: due.Name, ProviderID: due.ProviderID, WorkspaceID: due.ID})
	if ctx.Err() != nil {
		return ctx.Err() // nothing was found out, and the next look comes in its time
	}
	end := inventorydb.EndDriftLookParams{WorkspaceID: due.ID, BegunAt: due.BegunAt, Resources: []string{}}
	if err != nil {
		end.Error = cmp.Or(brief(err.Error()), "it failed")
	}
	for _, resource := range found {
		end.Resources = append(end.Resources, database.Text(resource))
	}
	if err := inventorydb.New(s.Store).EndDriftLook(ctx, end); err != nil {
		return xerrors.Errorf("store what a look at workspace %s found: %w", due.Name, err)
	}
	return nil
}

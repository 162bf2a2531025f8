package api

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/apidb"
)

type deleteProviderInput struct {
	Provider string `path:"provider" doc:"Name of the provider"`
	Force    bool   `query:"force" doc:"Also while it is in use; what it does not delete at once is given up"`
}

// deleteProvider also ends the pause of the provider, which would hold what is to go, and by force the backoff of what is on its
// way out.
func (s *server) deleteProvider(ctx context.Context, who auth.Identity, in *deleteProviderInput) (sdk.Provider, error) {
	var affected []uuid.UUID
	var deleted bool
	err := s.Store.InTx(ctx, database.TxOptions{Label: "delete provider"},
		func(ctx context.Context, tx pgx.Tx) (err error) {
			affected, deleted, err = templates.DeleteProvider(ctx, tx, who, in.Provider, in.Force)
			if err != nil || !deleted {
				return err
			}
			before, err := pausedBefore(ctx, tx, database.PauseScopeProvider, in.Provider)
			if err != nil {
				return err
			}
			if before != nil {
				_, err := apidb.New(tx).DeletePause(ctx, apidb.DeletePauseParams{Scope: database.PauseScopeProvider, Target: in.Provider})
				if err != nil {
					return xerrors.Errorf("delete pause: %w", err)
				}
				if err := recordPause(ctx, tx, who, "pause.delete", "provider", in.Provider, before, nil); err != nil {
					return err
				}
			}
			if err := inventory.LookSoon(ctx, tx, in.Provider); err != nil {
				return xerrors.Errorf("have the next inventory made: %w", err)
			}
			if !in.Force {
				return nil
			}
			return workspaces.ForceAt(ctx, tx, in.Provider)
		})
	if err != nil {
		return sdk.Provider{}, err
	}
	if deleted {
		s.Hints.Nudge(affected...)
		s.Hints.Wake()
		s.Hints.DemandChanged()
	}
	return s.providerNamed(ctx, who, in.Provider)
}

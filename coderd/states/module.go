package states

import (
	"context"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/statesdb"
)

// KeepModule stores what a workspace is made with, for the run of a token: what is made of it is destroyed with it too. Where its files
// are in an archive, that is kept for as long. ErrOver: the run is over.
func (s *Service) KeepModule(ctx context.Context, workspaceID uuid.UUID, token string, module []byte, archive string) error {
	sealed, keyID, err := s.Keys.Seal(module, aboutModule(workspaceID))
	if err != nil {
		return xerrors.Errorf("seal module: %w", err)
	}
	var digest *string
	if archive != "" {
		digest = &archive
	}
	return s.while(ctx, runOf(workspaceID, token), "store module", func(ctx context.Context, q *statesdb.Queries, _ lock) error {
		return q.KeepTerraformModule(ctx, statesdb.KeepTerraformModuleParams{
			WorkspaceID: workspaceID, Module: sealed, SealedBy: &keyID, Archive: digest,
		})
	})
}

// Module is what was kept. ErrNone: nothing was.
func (s *Service) Module(ctx context.Context, workspaceID uuid.UUID) ([]byte, error) {
	row, err := statesdb.New(s.Store).TerraformModule(ctx, workspaceID)
	if database.NoRows(err) {
		return nil, ErrNone
	}
	if err != nil {
		return nil, xerrors.Errorf("read module: %w", err)
	}
	module, err := s.Keys.Open(row.Module, *row.SealedBy, aboutModule(workspaceID))
	if err != nil {
		return nil, xerrors.Errorf("open module of workspace %s: %w", workspaceID, err)
	}
	return module, nil
}

// resealModules is Reseal for modules.
func (s *Service) resealModules(ctx context.Context, q *statesdb.Queries, first string) (n int, err error) {
	old, err := q.TerraformModulesToReseal(ctx, first)
	if err != nil {
		return 0, xerrors.Errorf("list modules: %w", err)
	}
	for _, id := range old {
		row, err := q.SealedTerraformModule(ctx, id)
		if database.NoRows(err) {
			continue
		}
		if err != nil {
			return 0, xerrors.Errorf("read module: %w", err)
		}
		module, err := s.Keys.Open(row.Module, *row.SealedBy, aboutModule(id))
		if err != nil {
			return 0, xerrors.Errorf("open module of workspace %s: %w", id, err)
		}
		sealed, keyID, err := s.Keys.Seal(module, aboutModule(id))
		if err != nil {
			return 0, xerrors.Errorf("seal module: %w", err)
		}
		if err := q.ResealTerraformModule(ctx, statesdb.ResealTerraformModuleParams{WorkspaceID: id, Module: sealed, SealedBy: &keyID}); err != nil {
			return 0, xerrors.Errorf("write module: %w", err)
		}
		n++
	}
	return n, nil
}

func aboutModule(workspaceID uuid.UUID) string { return "terraform module " + workspaceID.String() }

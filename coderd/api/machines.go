package api

import (
	"context"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

func (s *server) listMachines(ctx context.Context, _ auth.Identity, in *providerInput) ([]sdk.Machine, error) {
	if err := s.checkProvider(ctx, in.Provider); err != nil {
		return nil, err
	}
	rows, err := viewsdb.New(s.Store).MachineViews(ctx, in.Provider)
	if err != nil {
		return nil, xerrors.Errorf("list machines: %w", err)
	}
	return lists.Of(rows, func(row viewsdb.MachineViewsRow) sdk.Machine {
		return sdk.Machine{
			Machine: row.Machine, Address: row.Address, State: row.State, Error: row.Error, Workspace: row.Workspace,
			WorkspaceState: row.WorkspaceState, Incarnation: row.Incarnation, Holder: row.Holder, ReservedAt: row.ReservedAt,
			SeenAt: row.SeenAt, Failures: row.Failures, RetryAt: row.RetryAt,
		}
	}), nil
}

package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/demand/runners"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

type deleteWorkspaceInput struct {
	WorkspaceRef
	Force         bool `query:"force" doc:"Whatever the provider says (owners only)"`
	AbandonRunner bool `query:"abandon_runner" doc:"Without the forge's word on its runner, which is left behind there (owners only); refused where the runner is known to have a job"`
}

func (s *server) deleteWorkspace(
	ctx context.Context, who auth.Identity, in *deleteWorkspaceInput,
) (*body[sdk.Workspace], error) {
	row, err := s.findWorkspace(ctx, who, auth.ActDeleteWorkspace, in.Ref)
	if err != nil {
		return nil, err
	}
	if in.Force && !who.May(auth.ActForceWorkspace, row.OwnerID) {
		return nil, auth.Refuse(auth.ErrForbidden, "only owners delete by force; you have role %s", who.Role)
	}
	if in.AbandonRunner && !who.May(auth.ActAbandonRunner, row.OwnerID) {
		return nil, auth.Refuse(auth.ErrForbidden, "only owners give up on a runner; you have role %s", who.Role)
	}
	by := actor(who, "deleted by hand", row)
	goes, err := s.letRunnerGo(ctx, by, row, in.AbandonRunner)
	if err != nil {
		return nil, err
	}
	moved := workspaces.Moved{WorkspaceID: row.ID, TemplateID: row.TemplateID}
	if !goes || in.Force {
		if moved, err = s.Workspaces.Delete(ctx, by, row.ID, in.Force); err != nil {
			return nil, xerrors.Errorf("delete: %w", err)
		}
	}
	return s.retired(ctx, who, row.ID, moved)
}

// letRunnerGo asks the forge before a person's deletion, at once and outside of transactions (P7): busy is a veto, also against
// force, and any other answer than that it is unregistered stops the deletion. An owner may do without the forge's word;
// then it says whether the workspace was going already, and waited for that word only.
func (s *server) letRunnerGo(
	ctx context.Context, by workspaces.Actor, row database.WorkspaceViewRow, abandon bool,
) (goes bool, err error) {
	if s.Runners == nil {
		return false, nil
	}
	if abandon {
		state, err := s.Runners.Abandon(ctx, by, row.ID, row.Incarnation)
		if errors.Is(err, runners.ErrNoRunner) {
			return false, auth.Refuse(auth.ErrConflict, "workspace %s has no runner at a forge to give up on: delete it as any other",
				row.Name)
		}
		if err != nil {
			return false, s.runnerProblem(ctx, err)
		}
		return state == database.WorkspaceStateDraining, nil
	}
	switch row.State {
	case database.WorkspaceStateStarting, database.WorkspaceStateReady, database.WorkspaceStateStandby,
		database.WorkspaceStateClaimed, database.WorkspaceStateQuarantined:
	default:
		return false, nil // nothing of it is registered yet, or its drain asks
	}
	verdict, err := s.Runners.Deregister(ctx, row.ID, row.Incarnation)
	var failed *runners.ForgeError
	switch {
	case errors.As(err, &failed):
		return false, huma.Error502BadGateway("nothing was deleted, because the forge could not unregister its runner: " +
			failed.Error() + "; try again, or have an owner do it with --abandon-runner")
	case err != nil:
		return false, s.runnerProblem(ctx, err)
	case verdict.Busy:
		return false, huma.Error409Conflict(fmt.Sprintf("runner %s has a job: %s", row.Name, verdict.Why))
	case !verdict.Done:
		return false, retryIn(http.StatusServiceUnavailable, "nothing was deleted: "+verdict.Why, verdict.Wait)
	}
	return false, nil
}

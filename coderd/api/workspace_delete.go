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
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

type deleteWorkspaceInput struct {
	WorkspaceRef
	Force         bool `query:"force" doc:"Whatever the provider says (owners only)"`
	AbandonRunner bool `query:"abandon_runner" doc:"Without the forge's word on its runner, which is left behind there (owners only); refused where the runner is known to have a job"`
}

func (s *server) deleteWorkspace(
	ctx context.Context, who auth.Identity, in *deleteWorkspaceInput,
) (sdk.Workspace, error) {
	row, err := s.findWorkspace(ctx, who, auth.ActDeleteWorkspace, in.Ref)
	if err != nil {
		return sdk.Workspace{}, err
	}
	if in.Force && !who.May(auth.ActForceWorkspace, row.OwnerID) {
		return sdk.Workspace{}, auth.Refuse(auth.ErrForbidden, "only owners delete by force; you have role %s", who.Role)
	}
	if in.AbandonRunner && !who.May(auth.ActAbandonRunner, row.OwnerID) {
		return sdk.Workspace{}, auth.Refuse(auth.ErrForbidden, "only owners give up on a runner; you have role %s", who.Role)
	}
	by := actor(who, "deleted by hand", row)
	runner, err := s.letRunnerGo(ctx, by, row, in.AbandonRunner)
	if err != nil {
		return sdk.Workspace{}, err
	}
	moved := workspaces.Moved{WorkspaceID: row.ID, TemplateID: row.TemplateID}
	if !runner.goes || in.Force {
		moved, err = s.Workspaces.Delete(ctx, by, row.ID, in.Force)
		if runner.asked && errors.Is(err, workspaces.ErrGone) {
			moved, err = s.goneWithItsRunner(ctx, by, row)
		}
		if err != nil {
			return sdk.Workspace{}, xerrors.Errorf("delete: %w", err)
		}
	}
	return s.retired(ctx, who, row.ID, moved)
}

// goneWithItsRunner is for a workspace that went between the forge's word and the deletion: where its runner was unregistered,
// that ended at once, and the workspace was drained for it. It goes as it was asked for, and that is on record. ErrGone: it has
// no runner, so that somebody else deleted it.
func (s *server) goneWithItsRunner(
	ctx context.Context, by workspaces.Actor, row viewsdb.WorkspaceViewRow,
) (workspaces.Moved, error) {
	_, err := viewsdb.New(s.Store).RunnerOf(ctx, viewsdb.RunnerOfParams{WorkspaceID: row.ID, Incarnation: row.Incarnation})
	if database.NoRows(err) {
		return workspaces.Moved{}, workspaces.ErrGone
	}
	if err != nil {
		return workspaces.Moved{}, xerrors.Errorf("read runner: %w", err)
	}
	err = workspaces.RecordAct(ctx, s.Store, workspaces.RecordActParams{
		ActorID: by.UserID, Action: "workspace.delete", WorkspaceID: row.ID, Reason: by.Reason, Source: by.Source,
	})
	return workspaces.Moved{WorkspaceID: row.ID, TemplateID: row.TemplateID}, err //nolint:wrapcheck // the caller does
}

// letGo is what became of a workspace when its runner was let go.
type letGo struct {
	goes  bool // it was going already, and waited for the forge's word only
	asked bool // whatever runner it has is unregistered, which may be the end of both
}

// letRunnerGo asks the forge before a person's deletion, at once and outside of transactions (P7): busy is a veto, also against
// force, and any other answer than that it is unregistered stops the deletion. An owner may do without the forge's word.
func (s *server) letRunnerGo(
	ctx context.Context, by workspaces.Actor, row viewsdb.WorkspaceViewRow, abandon bool,
) (letGo, error) {
	if s.Runners == nil {
		return letGo{}, nil
	}
	if abandon {
		state, err := s.Runners.Abandon(ctx, by, row.ID, row.Incarnation)
		if errors.Is(err, runners.ErrNoRunner) {
			return letGo{}, auth.Refuse(auth.ErrConflict, "workspace %s has no runner at a forge to give up on: delete it as any other",
				row.Name)
		}
		if err != nil {
			return letGo{}, s.runnerProblem(ctx, err)
		}
		return letGo{goes: state == database.WorkspaceStateDraining}, nil
	}
	switch row.State {
	case database.WorkspaceStateStarting, database.WorkspaceStateReady, database.WorkspaceStateStandby,
		database.WorkspaceStateClaimed, database.WorkspaceStateQuarantined:
	default:
		return letGo{}, nil // nothing of it is registered yet, or its drain asks
	}
	verdict, err := s.Runners.Deregister(ctx, row.ID, row.Incarnation)
	var failed *runners.ForgeError
	switch {
	case errors.As(err, &failed):
		return letGo{}, huma.Error502BadGateway("nothing was deleted, because the forge could not unregister its runner: " +
			failed.Error() + "; try again, or have an owner do it with --abandon-runner")
	case err != nil:
		return letGo{}, s.runnerProblem(ctx, err)
	case verdict.Busy:
		return letGo{}, huma.Error409Conflict(fmt.Sprintf("runner %s has a job: %s", row.Name, verdict.Why))
	case !verdict.Done:
		return letGo{}, retryIn(http.StatusServiceUnavailable, "nothing was deleted: "+verdict.Why, verdict.Wait)
	}
	return letGo{asked: true}, nil
}

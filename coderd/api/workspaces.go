package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// WorkspaceRef names a workspace in a path. It is exported to be embedded: fields of others are not filled in.
type WorkspaceRef struct {
	Ref string `path:"workspace" doc:"Name or id of the workspace"`
}

func (s *server) registerWorkspaces() {
	answer(s, operation{
		id: "list-workspaces", method: http.MethodGet, path: "/workspaces", action: auth.ActReadWorkspace,
		tag: "workspaces", summary: "List workspaces, newest first",
		description: "Members see their own. The environment is given only to who may enter the workspace.",
	}, s.listWorkspaces)
	answer(s, operation{
		id: "get-workspace", method: http.MethodGet, path: "/workspaces/{workspace}", action: auth.ActReadWorkspace,
		tag: "workspaces", summary: "Show a workspace with its history",
	}, s.getWorkspace)
	answer(s, operation{
		id: "release-workspace", method: http.MethodPost, path: "/workspaces/{workspace}/release",
		action: auth.ActReleaseWorkspace, tag: "workspaces", summary: "End the claim on a workspace",
		description: "The workspace is deleted then, or reset where its template uses it again; the answer does " +
			"not wait for that.",
	}, s.move(auth.ActReleaseWorkspace, "released", WorkspaceActions.Release))
	answer(s, operation{
		id: "renew-workspace", method: http.MethodPost, path: "/workspaces/{workspace}/renew",
		action: auth.ActRenewLease, tag: "workspaces", summary: "Renew the lease of a claimed workspace",
		description: "From now on it lasts as long as it was asked for, or as this request says. 409 if the workspace is not " +
			"claimed (any more), or has no lease and none is asked for.",
	}, s.renewWorkspace)
	answer(s, operation{
		id: "retry-workspace", method: http.MethodPost, path: "/workspaces/{workspace}/retry",
		action: auth.ActRetryWorkspace, tag: "workspaces", summary: "Try a quarantined workspace again, or the apply for an owner that failed",
		description: "It is asked for readiness again, or created again if nothing was ever made. 409 if its pool has no " +
			"room for it. A claimed workspace that could not be applied for its owner is applied again.",
	}, s.move(auth.ActRetryWorkspace, "retried by hand", WorkspaceActions.Retry))
	answer(s, operation{
		id: "keep-workspace", method: http.MethodPost, path: "/workspaces/{workspace}/keep",
		action: auth.ActKeepWorkspace, tag: "workspaces", summary: "Keep a workspace for inspection",
		description: "An unclaimed one is quarantined, with the reason: it is never claimed, left alone by passes, and its pool " +
			"builds another. One that is quarantined is kept for longer. 409 if it is claimed, or not built yet, or going.",
	}, s.keepWorkspace)
	answer(s, operation{
		id: "delete-workspace", method: http.MethodDelete, path: "/workspaces/{workspace}",
		action: auth.ActDeleteWorkspace, tag: "workspaces", summary: "Delete a workspace, also a claimed one",
		description: "The answer does not wait for the deletion. The runner of a forge is unregistered first. 409 if it has a " +
			"job, and 502 if its forge does not answer as it should. Then nothing was deleted.",
	}, s.deleteWorkspace)
}

func (s *server) getWorkspace(ctx context.Context, who auth.Identity, in *WorkspaceRef) (sdk.Workspace, error) {
	row, err := s.findWorkspace(ctx, who, auth.ActReadWorkspace, in.Ref)
	if err != nil {
		return sdk.Workspace{}, err
	}
	w, err := workspaceOf(who, row)
	if err != nil {
		return sdk.Workspace{}, err
	}
	history, err := viewsdb.New(s.Store).HistoryViews(ctx, row.ID)
	if err != nil {
		return sdk.Workspace{}, xerrors.Errorf("read history: %w", err)
	}
	w.History = transitionsOf(history)
	if w.Evidence, err = s.evidenceOf(ctx, who, row); err != nil {
		return sdk.Workspace{}, err
	}
	if w.Agent, err = s.agentOf(ctx, row.ID); err != nil {
		return sdk.Workspace{}, err
	}
	w.Resources = s.resourcesOf(ctx, who, row)
	if w.Drift, err = s.driftOf(ctx, who, row); err != nil {
		return sdk.Workspace{}, err
	}
	open, err := s.openOf(ctx, map[uuid.UUID]uuid.UUID{row.ID: row.TemplateVersionID})
	if err != nil {
		return sdk.Workspace{}, err
	}
	w.Open = open[row.ID]
	if row.ClaimID.Valid {
		if w.Handover, err = viewsdb.New(s.Store).HandoverView(ctx, row.ID); err != nil && !database.NoRows(err) {
			return sdk.Workspace{}, xerrors.Errorf("read handover: %w", err)
		}
		if w.Receipt, err = s.receipt(ctx, row.ClaimID.UUID); err != nil {
			return sdk.Workspace{}, err
		}
	}
	return w, nil
}

// evidenceOf is the end of the output of a workspace that failed. What it wrote is inside of it, so that it is for who may
// enter.
func (s *server) evidenceOf(ctx context.Context, who auth.Identity, row viewsdb.WorkspaceViewRow) (string, error) {
	if !who.May(auth.ActEnterWorkspace, row.OwnerID) {
		return "", nil
	}
	log, err := viewsdb.New(s.Store).FailureLog(ctx, row.ID)
	if err != nil && !database.NoRows(err) {
		return "", xerrors.Errorf("read evidence: %w", err)
	}
	return log, nil
}

// resourcesOf names what the provider made a workspace of. As its output does too, it is for who may enter. A provider that does not
// answer hides nothing else.
func (s *server) resourcesOf(ctx context.Context, who auth.Identity, row viewsdb.WorkspaceViewRow) []string {
	if !who.May(auth.ActEnterWorkspace, row.OwnerID) || row.State == database.WorkspaceStateDeleted {
		return nil
	}
	p, err := s.Providers.Get(row.Provider)
	if err != nil {
		return nil
	}
	composed, ok := provider.As[provider.Composed](p)
	if !ok {
		return nil
	}
	resources, err := composed.Resources(ctx, refOf(row))
	if err != nil && !errors.Is(err, provider.ErrNotFound) {
		s.Log.Warn(ctx, "list resources of a workspace", slog.F("workspace", row.Name), slog.Error(err))
	}
	return resources
}

// driftOf is nil where nobody looked. It names resources, and is for who may enter, as they are.
func (s *server) driftOf(ctx context.Context, who auth.Identity, row viewsdb.WorkspaceViewRow) (*sdk.Drift, error) {
	if !who.May(auth.ActEnterWorkspace, row.OwnerID) || row.State == database.WorkspaceStateDeleted {
		return nil, nil //nolint:nilnil // There is none to be shown.
	}
	if p, err := s.Providers.Get(row.Provider); err != nil || provider.DriftEvery(p) <= 0 {
		return nil, nil //nolint:nilerr,nilnil // Nobody looks, or nobody here knows.
	}
	d, err := viewsdb.New(s.Store).DriftView(ctx, row.ID)
	if database.NoRows(err) {
		return nil, nil //nolint:nilnil // There is none.
	}
	if err != nil {
		return nil, xerrors.Errorf("read drift: %w", err)
	}
	return &sdk.Drift{LookedAt: d.LookedAt, Resources: d.Resources, Error: d.Error}, nil
}

// agentOf is nil where no agent was ever expected.
func (s *server) agentOf(ctx context.Context, id uuid.UUID) (*sdk.Agent, error) {
	row, err := viewsdb.New(s.Store).AgentView(ctx, id)
	if database.NoRows(err) {
		return nil, nil //nolint:nilnil // There is none.
	}
	if err != nil {
		return nil, xerrors.Errorf("read agent: %w", err)
	}
	return &sdk.Agent{
		Status: string(row.Status), Silent: row.Silent, Message: row.Message, SystemInfo: row.SystemInfo,
		Recoveries: int(row.Recoveries), HeartbeatAt: row.HeartbeatAt, ClaimSeenAt: row.ClaimSeenAt,
		ClaimReadyAt: row.ClaimReadyAt,
	}, nil
}

// move is the handler of release and retry, which differ only in what they call.
func (s *server) move(
	action auth.Action, reason string,
	do func(WorkspaceActions, context.Context, workspaces.Actor, uuid.UUID) (workspaces.Moved, error),
) func(context.Context, auth.Identity, *WorkspaceRef) (sdk.Workspace, error) {
	return func(ctx context.Context, who auth.Identity, in *WorkspaceRef) (sdk.Workspace, error) {
		row, err := s.findWorkspace(ctx, who, action, in.Ref)
		if err != nil {
			return sdk.Workspace{}, err
		}
		moved, err := do(s.Workspaces, ctx, actor(who, reason, row), row.ID)
		if err != nil {
			return sdk.Workspace{}, xerrors.Errorf("%s: %w", action, err)
		}
		return s.retired(ctx, who, row.ID, moved)
	}
}

type keepInput struct {
	WorkspaceRef
	Body *sdk.KeepRequest // none is refused, but only of a workspace that exists for the asker
}

const (
	usualKeep = 24 * time.Hour
	maxKeep   = 30 * 24 * time.Hour // as of a template's keep_failures
)

func (s *server) keepWorkspace(ctx context.Context, who auth.Identity, in *keepInput) (sdk.Workspace, error) {
	row, err := s.findWorkspace(ctx, who, auth.ActKeepWorkspace, in.Ref)
	if err != nil {
		return sdk.Workspace{}, err
	}
	if in.Body == nil {
		return sdk.Workspace{}, auth.Refuse(auth.ErrInvalid, "reason: say why the workspace is to be kept, for others who find it")
	}
	keep, err := claimDuration("for", in.Body.For, usualKeep, time.Minute, maxKeep)
	if err != nil {
		return sdk.Workspace{}, err
	}
	moved, err := s.Workspaces.Keep(ctx, actor(who, "kept by "+who.User+": "+in.Body.Reason, row), row.ID, keep)
	if err != nil {
		return sdk.Workspace{}, xerrors.Errorf("keep: %w", err)
	}
	return s.retired(ctx, who, row.ID, moved)
}

// retired sends the hints that follow a release or a deletion, and answers with what the workspace is now.
func (s *server) retired(
	ctx context.Context, who auth.Identity, id uuid.UUID, moved workspaces.Moved,
) (sdk.Workspace, error) {
	s.Hints.Nudge(moved.TemplateID)
	s.Hints.WakeHere()
	row, err := viewsdb.New(s.Store).WorkspaceView(ctx, viewsdb.WorkspaceViewParams{
		OrganizationID: who.OrganizationID, ID: uuid.NullUUID{UUID: id, Valid: true},
	})
	if err != nil {
		return sdk.Workspace{}, xerrors.Errorf("read workspace: %w", err)
	}
	return workspaceOf(who, row)
}

// findWorkspace looks a workspace up by name or id. One that the asker may do nothing with does not exist for it.
func (s *server) findWorkspace(
	ctx context.Context, who auth.Identity, action auth.Action, ref string,
) (viewsdb.WorkspaceViewRow, error) {
	params := viewsdb.WorkspaceViewParams{OrganizationID: who.OrganizationID}
	if id, err := uuid.Parse(ref); err == nil {
		params.ID = uuid.NullUUID{UUID: id, Valid: true}
	} else {
		params.Name = &ref
	}
	row, err := viewsdb.New(s.Store).WorkspaceView(ctx, params)
	if err != nil && !database.NoRows(err) {
		return row, xerrors.Errorf("find workspace: %w", err)
	}
	if err != nil || !who.May(action, row.OwnerID) {
		return row, auth.Refuse(auth.ErrNotFound, "there is no workspace %q; `prewarm workspace list` shows those there are",
			ref)
	}
	return row, nil
}

// actor is who acts on a workspace as it was when their permission was looked at.
func actor(who auth.Identity, reason string, row viewsdb.WorkspaceViewRow) workspaces.Actor {
	return workspaces.Actor{UserID: who.UserID, Source: who.Source, Reason: reason, Incarnation: row.Incarnation}
}

package api

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// WorkspaceRef names a workspace in a path. It is exported to be embedded: fields of others are not filled in.
type WorkspaceRef struct {
	Ref string `path:"workspace" doc:"Name or id of the workspace"`
}

type listWorkspacesInput struct {
	State    string `query:"state" enum:"provisioning,starting,ready,standby,claimed,draining,deleting,deleted,quarantined" doc:"All but the deleted where empty"`
	Template string `query:"template"`
	Preset   string `query:"preset"`
	Owner    string `query:"owner" doc:"Name of a user"`
	Limit    int32  `query:"limit" minimum:"1" maximum:"500" default:"100"`
	After    string `query:"after" doc:"What the page before gave as next"`
}

type deleteWorkspaceInput struct {
	WorkspaceRef
	Force bool `query:"force" doc:"Whatever the provider says (owners only)"`
}

func (s *server) registerWorkspaces() {
	register(s, operation{
		id: "list-workspaces", method: http.MethodGet, path: "/workspaces", action: auth.ActReadWorkspace,
		tag: "workspaces", summary: "List workspaces, newest first",
		description: "Members see their own. The environment is given only to who may enter the workspace.",
	}, s.listWorkspaces)
	register(s, operation{
		id: "get-workspace", method: http.MethodGet, path: "/workspaces/{workspace}", action: auth.ActReadWorkspace,
		tag: "workspaces", summary: "Show a workspace with its history",
	}, s.getWorkspace)
	register(s, operation{
		id: "release-workspace", method: http.MethodPost, path: "/workspaces/{workspace}/release",
		action: auth.ActReleaseWorkspace, tag: "workspaces", summary: "End the claim on a workspace",
		description: "The workspace is deleted then; the answer does not wait for that.",
	}, s.releaseWorkspace)
	register(s, operation{
		id: "delete-workspace", method: http.MethodDelete, path: "/workspaces/{workspace}",
		action: auth.ActDeleteWorkspace, tag: "workspaces", summary: "Delete a workspace, also a claimed one",
		description: "The answer does not wait for the deletion.",
	}, s.deleteWorkspace)
}

func (s *server) listWorkspaces(
	ctx context.Context, who auth.Identity, in *listWorkspacesInput,
) (*body[sdk.WorkspaceList], error) {
	params := database.WorkspaceViewsParams{
		OrganizationID: who.OrganizationID, Template: given(in.Template), Preset: given(in.Preset), Owner: given(in.Owner),
		OwnerID: who.OnlyOwn(auth.ActReadWorkspace), MaxWorkspaces: in.Limit + 1,
	}
	if in.State != "" {
		state := database.WorkspaceState(in.State)
		params.State = &state
	}
	if in.After != "" {
		at, id, err := decodeCursor(in.After)
		if err != nil {
			return nil, err
		}
		params.AfterAt, params.AfterID = &at, uuid.NullUUID{UUID: id, Valid: true}
	}
	rows, err := s.Store.WorkspaceViews(ctx, params)
	if err != nil {
		return nil, xerrors.Errorf("list workspaces: %w", err)
	}
	list := sdk.WorkspaceList{Workspaces: []sdk.Workspace{}}
	if len(rows) > int(in.Limit) {
		rows = rows[:in.Limit]
		last := rows[len(rows)-1]
		list.Next = encodeCursor(last.CreatedAt, last.ID)
	}
	for _, row := range rows {
		w, err := workspaceOf(who, database.WorkspaceViewRow(row))
		if err != nil {
			return nil, err
		}
		list.Workspaces = append(list.Workspaces, w)
	}
	return bodyOf(list), nil
}

func (s *server) getWorkspace(ctx context.Context, who auth.Identity, in *WorkspaceRef) (*body[sdk.Workspace], error) {
	row, err := s.findWorkspace(ctx, who, auth.ActReadWorkspace, in.Ref)
	if err != nil {
		return nil, err
	}
	w, err := workspaceOf(who, row)
	if err != nil {
		return nil, err
	}
	history, err := s.Store.HistoryViews(ctx, row.ID)
	if err != nil {
		return nil, xerrors.Errorf("read history: %w", err)
	}
	w.History = transitionsOf(history)
	return bodyOf(w), nil
}

func (s *server) releaseWorkspace(
	ctx context.Context, who auth.Identity, in *WorkspaceRef,
) (*body[sdk.Workspace], error) {
	row, err := s.findWorkspace(ctx, who, auth.ActReleaseWorkspace, in.Ref)
	if err != nil {
		return nil, err
	}
	moved, err := s.Workspaces.Release(ctx, actor(who, "released"), row.ID)
	if err != nil {
		return nil, xerrors.Errorf("release: %w", err)
	}
	return s.retired(ctx, who, row.ID, moved)
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
	moved, err := s.Workspaces.Delete(ctx, actor(who, "deleted by hand"), row.ID, in.Force)
	if err != nil {
		return nil, xerrors.Errorf("delete: %w", err)
	}
	return s.retired(ctx, who, row.ID, moved)
}

// retired sends the hints that follow a release or a deletion, and answers with what the workspace is now.
func (s *server) retired(
	ctx context.Context, who auth.Identity, id uuid.UUID, moved workspaces.Moved,
) (*body[sdk.Workspace], error) {
	s.Nudge(moved.TemplateID)
	s.Wake()
	row, err := s.Store.WorkspaceView(ctx, database.WorkspaceViewParams{
		OrganizationID: who.OrganizationID, ID: uuid.NullUUID{UUID: id, Valid: true},
	})
	if err != nil {
		return nil, xerrors.Errorf("read workspace: %w", err)
	}
	w, err := workspaceOf(who, row)
	if err != nil {
		return nil, err
	}
	return bodyOf(w), nil
}

// findWorkspace looks a workspace up by name or id. One that the asker may do nothing with does not exist for it.
func (s *server) findWorkspace(
	ctx context.Context, who auth.Identity, action auth.Action, ref string,
) (database.WorkspaceViewRow, error) {
	params := database.WorkspaceViewParams{OrganizationID: who.OrganizationID}
	if id, err := uuid.Parse(ref); err == nil {
		params.ID = uuid.NullUUID{UUID: id, Valid: true}
	} else {
		params.Name = &ref
	}
	row, err := s.Store.WorkspaceView(ctx, params)
	if err != nil && !database.NoRows(err) {
		return row, xerrors.Errorf("find workspace: %w", err)
	}
	if err != nil || !who.May(action, row.OwnerID) {
		return row, auth.Refuse(auth.ErrNotFound, "there is no workspace %q; `prewarm workspace list` shows those there are",
			ref)
	}
	return row, nil
}

func actor(who auth.Identity, reason string) workspaces.Actor {
	return workspaces.Actor{UserID: who.UserID, Source: who.Source, Reason: reason}
}

// given is a filter, nil where it is empty.
func given(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// A cursor is the place of the last row of a page, opaque to clients.
func encodeCursor(at time.Time, id uuid.UUID) string {
	return base64.RawURLEncoding.EncodeToString([]byte(at.UTC().Format(time.RFC3339Nano) + " " + id.String()))
}

func decodeCursor(s string) (time.Time, uuid.UUID, error) {
	refused := auth.Refuse(auth.ErrInvalid, "after: not what a page gave as next")
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return time.Time{}, uuid.Nil, refused
	}
	first, second, _ := strings.Cut(string(b), " ")
	at, err := time.Parse(time.RFC3339Nano, first)
	if err != nil {
		return time.Time{}, uuid.Nil, refused
	}
	id, err := uuid.Parse(second)
	if err != nil {
		return time.Time{}, uuid.Nil, refused
	}
	return at, id, nil
}

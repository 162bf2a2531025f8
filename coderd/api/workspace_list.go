package api

import (
	"context"
	"encoding/base64"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

type listWorkspacesInput struct {
	State    string `query:"state" enum:"provisioning,starting,ready,standby,claimed,draining,deleting,deleted,quarantined" doc:"All but the deleted where empty"`
	Template string `query:"template"`
	Preset   string `query:"preset"`
	Owner    string `query:"owner" doc:"Name of a user"`
	Q        string `query:"q" maxLength:"200" doc:"Words, each a part of the name, the pool, the owner, the provider or its id there, in any case"`
	Limit    int32  `query:"limit" minimum:"1" maximum:"500" default:"100"`
	After    string `query:"after" doc:"What the page before gave as next"`
}

func (s *server) listWorkspaces(
	ctx context.Context, who auth.Identity, in *listWorkspacesInput,
) (*body[sdk.WorkspaceList], error) {
	ids, err := s.page(ctx, who, in)
	if err != nil {
		return nil, err
	}
	more := len(ids) > int(in.Limit)
	if more {
		ids = ids[:in.Limit]
	}
	rows, err := viewsdb.New(s.Store).WorkspaceViews(ctx, ids)
	if err != nil {
		return nil, xerrors.Errorf("list workspaces: %w", err)
	}
	list := sdk.WorkspaceList{Workspaces: []sdk.Workspace{}}
	for _, row := range rows {
		w, err := workspaceOf(who, viewsdb.WorkspaceViewRow(row))
		if err != nil {
			return nil, err
		}
		list.Workspaces = append(list.Workspaces, w)
	}
	n, err := fitting(list.Workspaces)
	if err != nil {
		return nil, err
	}
	if (more || n < len(rows)) && n > 0 {
		list.Workspaces = list.Workspaces[:n]
		last := list.Workspaces[n-1]
		list.Next = encodeCursor(last.CreatedAt, last.ID)
	}
	return bodyOf(list), nil
}

// page is the ids of a page, and one more where there is another page.
func (s *server) page(ctx context.Context, who auth.Identity, in *listWorkspacesInput) ([]uuid.UUID, error) {
	params := viewsdb.WorkspacePageParams{
		OrganizationID: who.OrganizationID, Template: given(in.Template), Preset: given(in.Preset),
		Words: patterns(in.Q), MaxWorkspaces: in.Limit + 1,
		Claimed: in.State == "" || in.State == string(database.WorkspaceStateClaimed),
		Deleted: in.State == string(database.WorkspaceStateDeleted),
	}
	params.Unclaimed = in.State == "" || !params.Claimed && !params.Deleted
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
	owner, err := s.ownerFilter(ctx, who, in.Owner)
	if err != nil {
		return nil, err
	}
	if !owner.Valid {
		ids, err := viewsdb.New(s.Store).WorkspacePage(ctx, params)
		if err != nil {
			return nil, xerrors.Errorf("find workspaces: %w", err)
		}
		return ids, nil
	}
	ids, err := viewsdb.New(s.Store).WorkspacePageOf(ctx, viewsdb.WorkspacePageOfParams{
		Claimed: params.Claimed, State: params.State, OrganizationID: params.OrganizationID, OwnerID: owner.UUID,
		Template: params.Template, Preset: params.Preset, Words: params.Words, AfterAt: params.AfterAt, AfterID: params.AfterID,
		MaxWorkspaces: params.MaxWorkspaces, Unclaimed: params.Unclaimed, Deleted: params.Deleted,
	})
	if err != nil {
		return nil, xerrors.Errorf("find workspaces of an owner: %w", err)
	}
	return ids, nil
}

// ownerFilter is whose workspaces are listed: those of the name asked for, but never others than one's own where the
// role sees only these. Nobody has the workspaces of a name that nobody has.
func (s *server) ownerFilter(ctx context.Context, who auth.Identity, name string) (uuid.NullUUID, error) {
	own := who.OnlyOwn(auth.ActReadWorkspace)
	if name == "" {
		return own, nil
	}
	user, err := viewsdb.New(s.Store).UserByName(ctx, name)
	switch {
	case database.NoRows(err), err == nil && own.Valid && own.UUID != user.ID:
		return uuid.NullUUID{Valid: true}, nil
	case err != nil:
		return own, xerrors.Errorf("find owner: %w", err)
	}
	return uuid.NullUUID{UUID: user.ID, Valid: true}, nil
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

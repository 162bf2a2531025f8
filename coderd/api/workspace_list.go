package api

import (
	"cmp"
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

func (s *server) listWorkspaces(
	ctx context.Context, who auth.Identity, in *sdk.WorkspaceFilter,
) (sdk.WorkspaceList, error) {
	ids, err := s.page(ctx, who, in)
	if err != nil {
		return sdk.WorkspaceList{}, err
	}
	ids, more := firstOf(ids, in.Limit)
	rows, err := viewsdb.New(s.Store).WorkspaceViews(ctx, ids)
	if err != nil {
		return sdk.WorkspaceList{}, xerrors.Errorf("list workspaces: %w", err)
	}
	workspaces := make([]sdk.Workspace, len(rows))
	for i, row := range rows {
		if workspaces[i], err = workspaceOf(who, viewsdb.WorkspaceViewRow(row)); err != nil {
			return sdk.WorkspaceList{}, err
		}
	}
	var list sdk.WorkspaceList
	list.Workspaces, list.Next, err = fitting(workspaces, more, func(w sdk.Workspace) string { return encodeCursor(w.CreatedAt, w.ID) })
	return list, err
}

// page is the ids of a page, and one more where there is another page.
func (s *server) page(ctx context.Context, who auth.Identity, in *sdk.WorkspaceFilter) ([]uuid.UUID, error) {
	params := viewsdb.WorkspacePageParams{
		OrganizationID: who.OrganizationID, Template: database.OrNull(in.Template), Preset: database.OrNull(in.Preset),
		Words: patterns(in.Q), MaxWorkspaces: in.Limit + 1,
		Claimed: in.State == "" || in.State == string(database.WorkspaceStateClaimed),
		Deleted: in.State == string(database.WorkspaceStateDeleted),
	}
	params.Unclaimed = in.State == "" || !params.Claimed && !params.Deleted
	params.State = database.OrNull(database.WorkspaceState(in.State))
	var err error
	if params.AfterAt, params.AfterID, err = afterOf(in.After); err != nil {
		return nil, err
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

// A cursor is the place of the last row of a page, opaque to clients.
func encodeCursor(at time.Time, id uuid.UUID) string {
	return base64.RawURLEncoding.EncodeToString([]byte(at.UTC().Format(time.RFC3339Nano) + " " + id.String()))
}

// afterOf is where a page begins; nil and null for the first.
func afterOf(cursor string) (*time.Time, uuid.NullUUID, error) {
	if cursor == "" {
		return nil, uuid.NullUUID{}, nil
	}
	b, malformed := base64.RawURLEncoding.DecodeString(cursor)
	first, second, _ := strings.Cut(string(b), " ")
	at, noTime := time.Parse(time.RFC3339Nano, first)
	id, noID := uuid.Parse(second)
	if cmp.Or(malformed, noTime, noID) != nil {
		return nil, uuid.NullUUID{}, auth.Refuse(auth.ErrInvalid, "after: not what a page gave as next")
	}
	return &at, uuid.NullUUID{UUID: id, Valid: true}, nil
}

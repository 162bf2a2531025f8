package workspaces

import (
	"context"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// Together are claims that wait, in this transaction or before it, and are bound to so many workspaces or to none.
type Together struct {
	ClaimIDs []uuid.UUID
	PresetID uuid.UUID
	UserID   uuid.UUID
	Source   string
	AtOnce   bool      // they were made in this very transaction: it is a hit
	Last     bool      // before a miss: rows that others are at are waited for, not skipped; nothing may be picked before
	Fresh    time.Time // only workspaces that were planned since will do; zero: any
}

// BindTogether: ready -> claimed for all of the claims, on the caller's transaction; it returns none where there are too
// few ready workspaces, and then nothing was changed. Told is to be called with what it returns, after the commit.
func (w *Writer) BindTogether(ctx context.Context, db database.DBTX, t Together) ([]Bound, error) {
	q := workspacesdb.New(db)
	var fresh *time.Time
	if !t.Fresh.IsZero() {
		fresh = &t.Fresh
	}
	n := int32(len(t.ClaimIDs)) // at most as many as the API allows
	var picked []uuid.UUID
	var err error
	if t.Last {
		picked, err = q.PickReadyLast(ctx, workspacesdb.PickReadyLastParams{PresetID: t.PresetID, FreshSince: fresh, Wanted: n})
	} else {
		picked, err = q.PickReady(ctx, workspacesdb.PickReadyParams{PresetID: t.PresetID, FreshSince: fresh, Wanted: n})
	}
	if err != nil {
		return nil, xerrors.Errorf("pick ready workspaces: %w", err)
	}
	if len(picked) < len(t.ClaimIDs) {
		return nil, nil
	}
	rows, err := q.BindTogether(ctx, workspacesdb.BindTogetherParams{
		ClaimIds: t.ClaimIDs, WorkspaceIds: picked, UserID: t.UserID, AtOnce: t.AtOnce, Source: t.Source,
	})
	if err != nil {
		return nil, xerrors.Errorf("bind claims together: %w", err)
	}
	if len(rows) != len(t.ClaimIDs) {
		return nil, xerrors.Errorf("bind %d claims together: %d were bound: %w", len(t.ClaimIDs), len(rows), ErrLost)
	}
	return lists.Of(rows, func(r workspacesdb.BindTogetherRow) Bound { return Bound{r.ClaimID, r.WorkspaceID, r.TemplateID} }), nil
}

// Told says that claims were bound by BindTogether, after the commit: their agents are to be told.
func (w *Writer) Told(bound []Bound) { w.tell(bound) }

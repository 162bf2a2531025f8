package workspaces

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
)

// ClaimFor is one claim on one pool.
type ClaimFor struct {
	ClaimID  uuid.UUID
	PresetID uuid.UUID
	UserID   uuid.UUID
	Key      string // idempotency key; empty for none
	Mode     database.ClaimMode
	Source   string
}

// Bound is a waiting claim that got its workspace.
type Bound struct {
	ClaimID     uuid.UUID
	WorkspaceID uuid.UUID
	TemplateID  uuid.UUID
}

// Claim: ready -> claimed, in one statement that skips rows which others are at. ErrLost means nothing was free.
// A key used before is a unique violation of claims_key.
func (w *Writer) Claim(ctx context.Context, c ClaimFor) (database.Workspace, error) {
	row, err := w.store.ClaimWarm(ctx, database.ClaimWarmParams{
		ClaimID: c.ClaimID, PresetID: c.PresetID, UserID: c.UserID, IdempotencyKey: key(c.Key), Mode: c.Mode,
		Source: c.Source,
	})
	if err == nil {
		w.claimed(row.ID)
	}
	return database.Workspace(row), lost("claim workspace", err)
}

// ClaimLast is Claim without skipping: asked once before a miss is answered, so that a row which was locked just then is
// not overlooked. It also takes prebuilds of older versions where the template keeps them claimable (C7).
func (w *Writer) ClaimLast(ctx context.Context, c ClaimFor) (database.Workspace, error) {
	row, err := w.store.ClaimLast(ctx, database.ClaimLastParams{
		ClaimID: c.ClaimID, PresetID: c.PresetID, UserID: c.UserID, IdempotencyKey: key(c.Key), Mode: c.Mode,
		Source: c.Source,
	})
	if err == nil {
		w.claimed(row.ID)
	}
	return database.Workspace(row), lost("claim workspace", err)
}

// BindOldest gives ready workspaces of a preset to its waiting claims, oldest first, until one of the two runs out.
func (w *Writer) BindOldest(ctx context.Context, presetID uuid.UUID) ([]Bound, error) {
	var all []Bound
	for {
		bound, err := w.bindOldest(ctx, w.store.Queries, presetID)
		if err != nil || len(bound) == 0 {
			w.tell(all)
			return all, err
		}
		all = append(all, bound...)
	}
}

func (w *Writer) bindOldest(ctx context.Context, q *database.Queries, presetID uuid.UUID) ([]Bound, error) {
	rows, err := q.BindOldest(ctx, database.BindOldestParams{PresetID: presetID, Source: w.replica})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, xerrors.Errorf("bind waiting claim: %w", err)
	}
	bound := make([]Bound, 0, len(rows))
	for _, r := range rows {
		bound = append(bound, Bound{r.ClaimID, r.WorkspaceID, r.TemplateID})
	}
	return bound, nil
}

func (w *Writer) tell(bound []Bound) {
	for _, b := range bound {
		w.claimed(b.WorkspaceID)
	}
}

func key(k string) *string {
	if k == "" {
		return nil
	}
	return &k
}

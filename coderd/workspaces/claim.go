package workspaces

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// ClaimFor is one claim on one pool.
type ClaimFor struct {
	ClaimID  uuid.UUID
	PresetID uuid.UUID
	UserID   uuid.UUID
	Key      string // idempotency key; empty for none
	Mode     database.ClaimMode
	Source   string
	LeaseS   int32 // seconds; 0: what the template says
}

// Bound is a waiting claim that got its workspace.
type Bound struct {
	ClaimID     uuid.UUID
	WorkspaceID uuid.UUID
	TemplateID  uuid.UUID
}

// ClaimBatch: ready -> claimed for any number of claims, in one statement that skips rows which others are at. It returns
// the workspaces that were claimed, each with the id of its claim; a claim without one found nothing free, or its key was
// used before. A key that another transaction uses at this moment is a unique violation of claims_key, and nothing was
// done; no two claims of a batch may have the same key. floors are lower bounds of ready_at by preset, none where zero.
func (w *Writer) ClaimBatch(
	ctx context.Context, claims []ClaimFor, floors map[uuid.UUID]time.Time,
) ([]database.Workspace, error) {
	n := len(claims)
	arg := workspacesdb.ClaimBatchParams{
		ClaimIds: make([]uuid.UUID, n), PresetIds: make([]uuid.UUID, n), UserIds: make([]uuid.UUID, n),
		IdempotencyKeys: make([]string, n), Modes: make([]string, n), Sources: make([]string, n),
		Leases: make([]int32, n), Pools: make([]uuid.UUID, 0, 1), Floors: make([]time.Time, 0, 1),
	}
	for i := range claims {
		c := &claims[i]
		arg.ClaimIds[i], arg.PresetIds[i], arg.UserIds[i] = c.ClaimID, c.PresetID, c.UserID
		arg.IdempotencyKeys[i], arg.Modes[i], arg.Sources[i] = c.Key, string(c.Mode), c.Source
		arg.Leases[i] = c.LeaseS
		if !slices.Contains(arg.Pools, c.PresetID) {
			arg.Pools = append(arg.Pools, c.PresetID)
			arg.Floors = append(arg.Floors, floors[c.PresetID])
		}
	}
	rows, err := workspacesdb.New(w.store).ClaimBatch(ctx, arg)
	if err != nil {
		return nil, xerrors.Errorf("claim workspaces: %w", err)
	}
	got, ids := make([]database.Workspace, len(rows)), make([]uuid.UUID, len(rows))
	for i := range rows {
		got[i], ids[i] = database.Workspace(rows[i]), rows[i].ID
	}
	if len(ids) > 0 {
		w.claimed(ids...)
	}
	return got, nil
}

// ClaimLast: ready -> claimed for one claim, without skipping and without a floor: asked once before a miss is answered, so that a row which was locked just then is
// not overlooked. It also takes prebuilds of older versions where the template keeps them claimable (C7).
func (w *Writer) ClaimLast(ctx context.Context, c ClaimFor) (database.Workspace, error) {
	row, err := workspacesdb.New(w.store).ClaimLast(ctx, workspacesdb.ClaimLastParams{
		ClaimID: c.ClaimID, PresetID: c.PresetID, UserID: c.UserID, IdempotencyKey: database.OrNull(c.Key), Mode: c.Mode,
		Source: c.Source, LeaseS: database.OrNull(c.LeaseS),
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
		bound, err := w.bindOldest(ctx, w.store, presetID)
		if err != nil || len(bound) == 0 {
			w.tell(all)
			return all, err
		}
		all = append(all, bound...)
	}
}

func (w *Writer) bindOldest(ctx context.Context, db database.DBTX, presetID uuid.UUID) ([]Bound, error) {
	rows, err := workspacesdb.New(db).BindOldest(ctx, workspacesdb.BindOldestParams{PresetID: presetID, Source: w.replica})
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, xerrors.Errorf("bind waiting claim: %w", err)
	}
	return lists.Of(rows, func(r workspacesdb.BindOldestRow) Bound { return Bound{r.ClaimID, r.WorkspaceID, r.TemplateID} }), nil
}

func (w *Writer) tell(bound []Bound) {
	for _, b := range bound {
		w.claimed(b.WorkspaceID)
	}
}

// ClaimForJob: ready -> claimed, in the name of a forge's job that the workspace's runner was given; uuid.Nil is a job that is
// not known. ErrLost if it is not ready any more in that incarnation.
func (w *Writer) ClaimForJob(
	ctx context.Context, id uuid.UUID, incarnation int32, job uuid.UUID, reason string,
) (Moved, error) {
	row, err := workspacesdb.New(w.store).ClaimForJob(ctx, workspacesdb.ClaimForJobParams{
		WorkspaceID: id, Incarnation: incarnation, ForgeJobs: ForgeJobs, ClaimID: w.newID(), Reason: reason, Source: w.replica,
		JobID: uuid.NullUUID{UUID: job, Valid: job != uuid.Nil},
	})
	if err == nil {
		w.claimed(row.ID)
	}
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("claim workspace for job", err)
}

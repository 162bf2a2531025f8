package workspaces

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// Priorities of jobs: lower is leased first. People's work is never starved by prebuilds.
const (
	PriorityPerson   int32 = 0
	PriorityPrebuild int32 = 10
)

// unclaimed are the states that a pass's drain intent may leave. Provisioning is cancelled instead, and what drains or
// is being deleted already goes.
var unclaimed = []string{
	string(database.WorkspaceStateStarting), string(database.WorkspaceStateReady), string(database.WorkspaceStateStandby),
}

// Drain: starting, ready or standby -> draining, as an intent of a pass says. ErrLost means a claim came first, or it
// already goes; both are fine (I2).
func (w *Writer) Drain(ctx context.Context, db database.DBTX, id uuid.UUID, incarnation int32, reason string) (Moved, error) {
	return w.draining(ctx, db, id, incarnation, unclaimed, PriorityPrebuild, false, "workspace.drain", w.System(reason))
}

// Cancel: provisioning -> deleted if the create was never leased, else -> deleting.
func (w *Writer) Cancel(ctx context.Context, db database.DBTX, id uuid.UUID, incarnation int32, reason string) (Moved, error) {
	return w.cancel(ctx, db, id, incarnation, PriorityPrebuild, false, "workspace.cancel", w.System(reason))
}

// Drained: draining -> deleting, once deregistered or never registered.
func (w *Writer) Drained(ctx context.Context, l Lease, reason string) (Moved, error) {
	row, err := workspacesdb.New(w.store).WorkspaceDrained(ctx, workspacesdb.WorkspaceDrainedParams{
		WorkspaceID: l.WorkspaceID, Incarnation: l.Incarnation, JobID: l.JobID, Attempt: l.Attempt,
		NextJobID: w.newID(), ActorID: Prewarm, Reason: reason,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("record drain", err)
}

// Gone: deleting -> deleted. A fault is kept where the delete was forced against the provider's word.
func (w *Writer) Gone(ctx context.Context, l Lease, reason, fault string) (Moved, error) {
	row, err := workspacesdb.New(w.store).WorkspaceGone(ctx, workspacesdb.WorkspaceGoneParams{
		WorkspaceID: l.WorkspaceID, Incarnation: l.Incarnation, JobID: l.JobID, Attempt: l.Attempt,
		ActorID: Prewarm, Reason: reason, Fault: fault, Source: w.replica,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("record deletion", err)
}

// Release: claimed -> draining, and the claim is over; or claimed -> starting in the next incarnation, where the template
// has workspaces used again and the pool has room for this one. ErrNotClaimed if it is not claimed, or not any more in the
// incarnation that is meant; ErrNotFound if it never was.
func (w *Writer) Release(ctx context.Context, a Actor, id uuid.UUID) (Moved, error) {
	return w.release(ctx, a, id, nil)
}

// release is Release, if still says so in the transaction that does it; nil: it does.
func (w *Writer) release(ctx context.Context, a Actor, id uuid.UUID, still guard) (Moved, error) {
	for {
		cur, err := w.current(ctx, id)
		if err != nil {
			return Moved{}, err
		}
		if cur.State != database.WorkspaceStateClaimed || a.Incarnation != 0 && a.Incarnation != cur.Incarnation {
			return Moved{}, ErrNotClaimed
		}
		if cur.Incarnation < cur.MaxUses {
			moved, err := w.reuse(ctx, a, cur, still)
			if err == nil {
				w.released(moved)
				return moved, nil
			}
			if !errors.Is(err, ErrLost) && !errors.Is(err, errNoRoom) {
				return Moved{}, err
			}
		}
		var moved Moved
		err = w.guarded(ctx, still, cur, func(ctx context.Context, db database.DBTX) error {
			moved, err = w.draining(ctx, db, id, cur.Incarnation, []string{string(database.WorkspaceStateClaimed)},
				PriorityPerson, false, "workspace.release", a)
			return err
		})
		if err == nil {
			w.released(moved)
		}
		if !errors.Is(err, ErrLost) { // lost: look again, it is going or claimed under another incarnation
			return moved, err
		}
	}
}

// Delete is a person's word on a workspace in any state, the claimed included (I2). With force the provider's errors are
// ignored and a running backoff ends (G5); only then is it no error that the workspace already goes.
func (w *Writer) Delete(ctx context.Context, a Actor, id uuid.UUID, force bool) (Moved, error) {
	action := "workspace.delete"
	if force {
		action = "workspace.force-delete"
	}
	for {
		cur, err := w.current(ctx, id)
		if err != nil {
			return Moved{}, err
		}
		if a.Incarnation != 0 && a.Incarnation != cur.Incarnation {
			return Moved{}, ErrLost
		}
		var moved Moved
		switch cur.State {
		case database.WorkspaceStateDeleted:
			return Moved{}, ErrGone
		case database.WorkspaceStateDraining, database.WorkspaceStateDeleting:
			if !force {
				return Moved{}, ErrGone
			}
			moved, err = w.force(ctx, a, action, cur)
		case database.WorkspaceStateProvisioning:
			err = w.traced(ctx, func(ctx context.Context, db database.DBTX) error {
				moved, err = w.cancel(ctx, db, id, cur.Incarnation, PriorityPerson, force, action, a)
				return err
			})
		default:
			err = w.traced(ctx, func(ctx context.Context, db database.DBTX) error {
				moved, err = w.draining(ctx, db, id, cur.Incarnation, []string{string(cur.State)}, PriorityPerson, force, action, a)
				return err
			})
			if err == nil && cur.State == database.WorkspaceStateClaimed {
				w.released(moved)
			}
		}
		if !errors.Is(err, ErrLost) { // lost: it moved between the two statements, so look again
			return moved, err
		}
	}
}

// ForceAt does as a forced delete (G5) for all that is on its way out at a provider.
func ForceAt(ctx context.Context, db database.DBTX, provider string) error {
	if _, err := workspacesdb.New(db).ForceRetireAt(ctx, provider); err != nil {
		return xerrors.Errorf("force deletes at provider: %w", err)
	}
	return nil
}

func (w *Writer) force(ctx context.Context, a Actor, action string, cur viewsdb.WorkspaceStateRow) (Moved, error) {
	err := w.store.InTx(ctx, database.TxOptions{Label: "force"}, func(ctx context.Context, tx pgx.Tx) error {
		q := workspacesdb.New(tx)
		n, err := q.ForceRetire(ctx, cur.ID)
		if err != nil {
			return xerrors.Errorf("force delete: %w", err)
		}
		if n == 0 {
			return ErrLost
		}
		return q.RecordWorkspaceAct(ctx, workspacesdb.RecordWorkspaceActParams{
			ActorID: a.UserID, Action: action, WorkspaceID: cur.ID, Reason: a.Reason, Source: a.Source,
		})
	})
	return Moved{cur.ID, cur.TemplateID, cur.PresetID}, err
}

func (w *Writer) draining(ctx context.Context, db database.DBTX, id uuid.UUID, incarnation int32, from []string,
	priority int32, force bool, action string, a Actor,
) (Moved, error) {
	row, err := workspacesdb.New(db).WorkspaceDraining(ctx, workspacesdb.WorkspaceDrainingParams{
		WorkspaceID: id, Incarnation: incarnation, FromStates: from, NextJobID: w.newID(), Priority: priority,
		Force: force, ActorID: a.UserID, Reason: a.Reason, Action: action, Source: a.Source,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("drain workspace", err)
}

func (w *Writer) cancel(ctx context.Context, db database.DBTX, id uuid.UUID, incarnation int32, priority int32,
	force bool, action string, a Actor,
) (Moved, error) {
	row, err := workspacesdb.New(db).WorkspaceCancelled(ctx, workspacesdb.WorkspaceCancelledParams{
		WorkspaceID: id, Incarnation: incarnation, NextJobID: w.newID(), Priority: priority, Force: force,
		ActorID: a.UserID, Reason: a.Reason, Action: action, Source: a.Source,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("cancel creation", err)
}

func (w *Writer) current(ctx context.Context, id uuid.UUID) (viewsdb.WorkspaceStateRow, error) {
	cur, err := viewsdb.New(w.store).WorkspaceState(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return cur, ErrNotFound
	}
	if err != nil {
		return cur, xerrors.Errorf("read workspace: %w", err)
	}
	return cur, nil
}

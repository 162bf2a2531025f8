package workspaces

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// returnTimeout bounds how long a release waits for a pass, and a pass for a release.
const returnTimeout = time.Second

// errNoRoom: the pool does not want the workspace back.
var errNoRoom = errors.New("the pool has no room for it")

// NoRoom says why a quarantined workspace can't be tried anew: it would be one too many (I3).
type NoRoom struct{ Why string }

func (e *NoRoom) Error() string { return e.Why }

// reuse: claimed -> starting, incarnation + 1, under the fence. errNoRoom also if the fence could not be had in time: then
// the workspace is not used again, which costs a build and no more.
func (w *Writer) reuse(ctx context.Context, a Actor, cur viewsdb.WorkspaceStateRow, still guard) (moved Moved, err error) {
	err = w.returning(ctx, cur.ID, func(ctx context.Context, db database.DBTX, room workspacesdb.RoomForRow) error {
		if still != nil {
			if err := still(ctx, db, cur); err != nil {
				return err
			}
		}
		if whyNot(room) != "" || room.BeyondMaximum {
			return errNoRoom
		}
		row, err := workspacesdb.New(db).WorkspaceReused(ctx, workspacesdb.WorkspaceReusedParams{
			WorkspaceID: cur.ID, Incarnation: cur.Incarnation, PrewarmID: Prewarm, NextJobID: w.newID(),
			Priority: PriorityPrebuild, ActorID: a.UserID, Reason: a.Reason, Source: a.Source,
		})
		moved = Moved{row.ID, row.TemplateID, row.PresetID}
		return lost("reuse workspace", err)
	})
	if database.IsLockTimeout(err) {
		return Moved{}, errNoRoom
	}
	return moved, err
}

// Reset: starting -> starting, like new. The probe job that asks for readiness follows.
func (w *Writer) Reset(ctx context.Context, l Lease, f Facts) (Moved, error) {
	row, err := workspacesdb.New(w.store).WorkspaceReset(ctx, workspacesdb.WorkspaceResetParams{
		WorkspaceID: l.WorkspaceID, Incarnation: l.Incarnation, JobID: l.JobID, Attempt: l.Attempt,
		ProviderID: f.ProviderID, Addresses: f.Addresses, Environment: f.Environment, OsName: f.OSName, OsVersion: f.OSVersion,
		NextJobID: w.newID(),
		ActorID:   Prewarm,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("record reset", err)
}

// ResetFailed: starting -> deleting, because it could not be made like new.
func (w *Writer) ResetFailed(ctx context.Context, l Lease, fault string) (Moved, error) {
	row, err := workspacesdb.New(w.store).WorkspaceResetFailed(ctx, workspacesdb.WorkspaceResetFailedParams{
		WorkspaceID: l.WorkspaceID, Incarnation: l.Incarnation, JobID: l.JobID, Attempt: l.Attempt, Fault: fault,
		NextJobID: w.newID(), ActorID: Prewarm,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("record failed reset", err)
}

// Retry: quarantined -> starting, or -> provisioning where nothing was ever made of it; claimed -> claimed where it could not be handed
// over. ErrNotQuarantined if it is none of that, *NoRoom if its pool would have one too many.
func (w *Writer) Retry(ctx context.Context, a Actor, id uuid.UUID) (moved Moved, err error) {
	cur, err := w.current(ctx, id)
	if err != nil {
		return Moved{}, err
	}
	switch cur.State {
	case database.WorkspaceStateQuarantined:
	case database.WorkspaceStateClaimed:
		return w.retryHandover(ctx, a, id, cur.Incarnation)
	default:
		return Moved{}, ErrNotQuarantined
	}
	err = w.returning(ctx, id, func(ctx context.Context, db database.DBTX, room workspacesdb.RoomForRow) error {
		if why := whyNot(room); why != "" {
			return &NoRoom{why}
		}
		row, err := workspacesdb.New(db).WorkspaceRetried(ctx, workspacesdb.WorkspaceRetriedParams{
			WorkspaceID: id, Incarnation: cur.Incarnation, NextJobID: w.newID(), Priority: PriorityPerson,
			ActorID: a.UserID, Reason: a.Reason, Source: a.Source,
		})
		moved = Moved{row.ID, row.TemplateID, row.PresetID}
		return lost("retry workspace", err)
	})
	if database.IsLockTimeout(err) {
		return Moved{}, ErrLost
	}
	return moved, err
}

// Keep: starting, ready or standby -> quarantined, because a person wants to look into it; what is quarantined stays so for
// that long from now on. ErrNotKept where it is in no such state, or being reset.
func (w *Writer) Keep(ctx context.Context, a Actor, id uuid.UUID, keep time.Duration) (Moved, error) {
	cur, err := w.current(ctx, id)
	if err != nil {
		return Moved{}, err
	}
	if a.Incarnation != 0 && a.Incarnation != cur.Incarnation {
		return Moved{}, ErrLost
	}
	row, err := workspacesdb.New(w.store).WorkspaceKept(ctx, workspacesdb.WorkspaceKeptParams{
		WorkspaceID: id, Incarnation: cur.Incarnation, Reason: a.Reason, KeepS: keep.Seconds(), ActorID: a.UserID,
		Source: a.Source,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return Moved{}, ErrNotKept
	}
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("keep workspace", err)
}

// EndQuarantine: quarantined -> draining, because it was kept for long enough. ErrLost if somebody was faster.
func (w *Writer) EndQuarantine(ctx context.Context, id uuid.UUID, incarnation int32) (Moved, error) {
	return w.draining(ctx, w.store, id, incarnation, []string{string(database.WorkspaceStateQuarantined)},
		PriorityPrebuild, false, "workspace.drain", w.System("it was kept for as long as it was to be"))
}

// returning runs a transition that brings a workspace back into its pool, or into its place at the provider, under the
// pass's fence (I3).
func (w *Writer) returning(ctx context.Context, id uuid.UUID,
	move func(ctx context.Context, db database.DBTX, room workspacesdb.RoomForRow) error,
) error {
	opts := database.TxOptions{Label: "return to pool"}
	return w.store.InTx(ctx, opts, func(ctx context.Context, tx pgx.Tx) error {
		q := workspacesdb.New(tx)
		if err := q.SetReturnTimeout(ctx, fmt.Sprint(returnTimeout.Milliseconds())); err != nil {
			return xerrors.Errorf("set timeout: %w", err)
		}
		if err := q.MarkReturn(ctx); err != nil {
			return xerrors.Errorf("take the fence: %w", err)
		}
		room, err := q.RoomFor(ctx, id)
		if err != nil {
			return lost("look for room", err)
		}
		if err := move(ctx, tx, room); err != nil || !room.Gone {
			return err
		}
		if err := q.TakePlace(ctx, id); err != nil {
			return xerrors.Errorf("take a place of the maximum: %w", err)
		}
		return nil
	})
}

// whyNot is empty where the pool has room for one more.
func whyNot(room workspacesdb.RoomForRow) string {
	return explain.NoRoom(explain.Room{
		Current: room.Current, Paused: room.Paused, Has: int(room.Has), Wanted: int(room.Wanted),
		Full: room.Gone && room.BeyondMaximum,
	})
}

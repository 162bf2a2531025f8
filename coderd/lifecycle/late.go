package lifecycle

import (
	"context"
	"errors"
	"time"

	"cdr.dev/slog"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// lateTimeout bounds what is done after a call that may have come too late.
const lateTimeout = 10 * time.Second

// late looks after what a call may have done once its lease had ended, such as that of a replica that froze and woke. What
// this misses the inventory finds (I4).
func (w *Worker) late(ctx context.Context, j *work, what string,
	mend func(ctx context.Context, now viewsdb.WorkspaceStateRow) error,
) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateTimeout)
	defer cancel()
	now, err := viewsdb.New(w.Store).WorkspaceState(ctx, j.WorkspaceID)
	if err == nil {
		err = mend(ctx, now)
	}
	if err != nil && !errors.Is(err, workspaces.ErrLost) && !errors.Is(err, provider.ErrNotFound) {
		w.log.Warn(ctx, what, slog.F("workspace", j.ref.Name), slog.Error(err))
	}
}

// removeLate removes what a create made after its workspace had been deleted. A workspace that lives on is somebody else's
// to see to.
func (w *Worker) removeLate(ctx context.Context, j *work) {
	w.late(ctx, j, "remove what was created too late", func(ctx context.Context, now viewsdb.WorkspaceStateRow) error {
		if now.State != database.WorkspaceStateDeleted {
			return nil
		}
		return j.provider.Delete(ctx, j.ref)
	})
}

// replaceTaken sees to what a delete before a retry may have taken away: the resource that the next attempt has made under
// the same name. A workspace whose resource is gone is drained, so that another is built; a claimed one is its owner's, and
// only told of (I2). Where the next attempt is still at it, its end is waited for.
func (w *Worker) replaceTaken(ctx context.Context, j *work) {
	w.late(ctx, j, "look after what was deleted too late", func(ctx context.Context, now viewsdb.WorkspaceStateRow) (err error) {
		for now.State == database.WorkspaceStateProvisioning {
			if !w.sleep(ctx, handBackEvery) {
				return ctx.Err()
			}
			if now, err = viewsdb.New(w.Store).WorkspaceState(ctx, j.WorkspaceID); err != nil {
				return err
			}
		}
		switch now.State {
		case database.WorkspaceStateStarting, database.WorkspaceStateReady, database.WorkspaceStateStandby,
			database.WorkspaceStateClaimed:
		default:
			return nil // it goes, or is gone
		}
		if err := w.read(ctx, j); err != nil { // with the provider's id of what there should be
			return err
		}
		if _, err = j.provider.Get(ctx, j.ref); !errors.Is(err, provider.ErrNotFound) {
			return err // nil: nothing was taken
		}
		const reason = "its resource was deleted by a worker that had lost its lease"
		if now.State == database.WorkspaceStateClaimed {
			return xerrors.New("the workspace is claimed, and " + reason)
		}
		moved, err := w.Writer.Drain(ctx, w.Store, j.WorkspaceID, now.Incarnation, reason)
		if err != nil {
			return err
		}
		w.retires.wake.Ring()
		w.Hints.Nudge(moved.TemplateID)
		return nil
	})
}

// startTaken sees to what a stop may have done: a workspace that was claimed or started meanwhile is stopped. A claimed one
// is started again, and one of the pool is replaced.
func (w *Worker) startTaken(ctx context.Context, j *work) {
	w.late(ctx, j, "look after what was stopped too late", func(ctx context.Context, now viewsdb.WorkspaceStateRow) error {
		const reason = "it was stopped by a worker that had lost its lease"
		switch now.State {
		case database.WorkspaceStateStarting, database.WorkspaceStateReady, database.WorkspaceStateClaimed:
		default:
			return nil // it goes, or is to be stopped
		}
		inst, err := j.provider.Get(ctx, j.ref)
		switch {
		case err != nil || inst.Status != provider.StatusStopped: // nothing was taken, or somebody else sees to it
		case now.State == database.WorkspaceStateClaimed:
			err = w.Writer.StartAgain(ctx, now.ID, now.Incarnation, reason)
		default:
			_, err = w.Writer.Drain(ctx, w.Store, now.ID, now.Incarnation, reason)
		}
		w.Wake()
		w.Hints.Nudge(now.TemplateID)
		return err
	})
}

package lifecycle

import (
	"context"
	"errors"

	"cdr.dev/slog"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// replaceTaken sees to what a delete before a retry may have taken away after its lease had ended: the resource that the
// next attempt has made under the same name. A workspace whose resource is gone is drained, so that another is built; a
// claimed one is its owner's, and only told of (I2). Where the next attempt is still at it, its end is waited for.
func (w *Worker) replaceTaken(ctx context.Context, p provider.Provider, ref provider.Ref) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	for {
		now, err := w.Store.WorkspaceState(ctx, ref.WorkspaceID)
		if err == nil && now.State == database.WorkspaceStateProvisioning {
			if w.sleep(ctx, handBackEvery) {
				continue
			}
			err = ctx.Err()
		}
		if err == nil {
			err = w.replaceMissing(ctx, p, ref, now)
		}
		if err != nil {
			w.log.Warn(ctx, "look after what was deleted too late", slog.F("workspace", ref.Name), slog.Error(err))
		}
		return
	}
}

func (w *Worker) replaceMissing(
	ctx context.Context, p provider.Provider, ref provider.Ref, now database.WorkspaceStateRow,
) error {
	switch now.State {
	case database.WorkspaceStateStarting, database.WorkspaceStateReady, database.WorkspaceStateStandby,
		database.WorkspaceStateClaimed:
	default:
		return nil // it goes, or is gone
	}
	info, err := w.Store.JobForWork(ctx, ref.WorkspaceID) // with the provider's id of what there should be
	if err != nil {
		return err
	}
	_, err = p.Get(ctx, refOf(info))
	if !errors.Is(err, provider.ErrNotFound) {
		return err // nil: nothing was taken
	}
	const reason = "its resource was deleted by a worker that had lost its lease"
	if now.State == database.WorkspaceStateClaimed {
		return xerrors.New("the workspace is claimed, and " + reason)
	}
	moved, err := w.Writer.Drain(ctx, w.Store.Queries, ref.WorkspaceID, now.Incarnation, reason)
	if errors.Is(err, workspaces.ErrLost) {
		return nil
	}
	if err != nil {
		return err
	}
	signal(w.retires.wake)
	w.Nudge(moved.TemplateID)
	return nil
}

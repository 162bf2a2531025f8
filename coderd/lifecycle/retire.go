package lifecycle

import (
	"context"
	"errors"

	"cdr.dev/slog"
	"github.com/jackc/pgx/v5"

	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// intentBatch is how many intents are carried out in one transaction.
const intentBatch = 50

// drain: nothing here was ever registered at a forge, so it is drained already: draining -> deleting.
func (w *Worker) drain(ctx context.Context, job database.Job) {
	if _, err := w.Writer.Drained(ctx, leaseOf(job), "never registered"); err != nil {
		w.lostOr(ctx, job, "record drain", err)
		return
	}
	signal(w.retires.wake)
}

// delete repeats until the provider has nothing left: deleting -> deleted. A forced one ends whatever the provider says.
func (w *Worker) delete(ctx context.Context, job database.Job) {
	fault := ""
	info, p, err := w.load(ctx, job)
	if err == nil {
		err = p.Delete(ctx, refOf(info))
	}
	if ctx.Err() != nil {
		w.letGo(ctx, job)
		return
	}
	reason := "nothing is left at the provider"
	if err != nil {
		if !job.Force {
			w.retry(ctx, job, err)
			return
		}
		reason, fault = "forced", "deleted by force although: "+err.Error()
	}
	moved, err := w.Writer.Gone(ctx, leaseOf(job), reason, fault)
	if err != nil {
		w.lostOr(ctx, job, "record deletion", err)
		return
	}
	w.Nudge(moved.TemplateID)
}

// carryOutIntents drains and cancels what passes want gone, until ctx ends. An intent whose workspace was claimed, or
// has already gone, is dropped: claims win (I2).
func (w *Worker) carryOutIntents(ctx context.Context) {
	timer := w.Clock.NewTimer(poll, "lifecycle", "intents")
	defer timer.Stop()
	for {
		n, err := w.someIntents(ctx)
		if err != nil && ctx.Err() == nil {
			w.log.Warn(ctx, "carry out intents", slog.Error(err))
		}
		if err == nil && n == intentBatch {
			continue
		}
		timer.Reset(poll, "lifecycle", "intents")
		select {
		case <-ctx.Done():
			return
		case <-w.intents:
		case <-timer.C:
		}
	}
}

func (w *Worker) someIntents(ctx context.Context) (int, error) {
	n, draining := 0, 0
	err := w.Store.InTx(ctx, database.TxOptions{Label: "carry out intents"}, func(ctx context.Context, q *database.Queries, _ pgx.Tx) error {
		draining = 0
		due, err := q.DueIntents(ctx, intentBatch)
		if err != nil {
			return err
		}
		n = len(due)
		for _, in := range due {
			act := w.Writer.Drain
			if in.Kind == database.IntentKindCancel {
				act = w.Writer.Cancel
			}
			_, err := act(ctx, q, in.WorkspaceID, in.Incarnation, in.Reason)
			if errors.Is(err, workspaces.ErrLost) && in.Kind == database.IntentKindCancel {
				// It was created before it could be cancelled: then it is drained.
				_, err = w.Writer.Drain(ctx, q, in.WorkspaceID, in.Incarnation, in.Reason)
			}
			if err != nil && !errors.Is(err, workspaces.ErrLost) {
				return err
			}
			if err == nil {
				draining++
			}
			if err := q.DeleteIntent(ctx, database.DeleteIntentParams{
				WorkspaceID: in.WorkspaceID, Incarnation: in.Incarnation,
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if draining > 0 {
		signal(w.retires.wake)
	}
	return n, nil
}

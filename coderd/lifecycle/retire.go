package lifecycle

import (
	"context"
	"errors"
	"time"

	"cdr.dev/slog"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/tracing"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// intentBatch is how many intents are read at a time.
const intentBatch = 50

// Verdict is what a forge says to the end of one of its runners.
type Verdict struct {
	Done bool          // nothing of it is registered (any more)
	Busy bool          // it has a job: the veto (P7)
	Why  string        // for people
	Wait time.Duration // when to ask again where it is not done
}

// drain unregisters a runner at its forge: draining -> deleting. Busy is a veto: it stays draining, however long its job takes
// (P7, A6). What a forge did not say is waited for as well.
func (w *Worker) drain(ctx context.Context, j *work) outcome {
	verdict := Verdict{Done: true, Why: "never registered"}
	if w.Deregister != nil {
		var err error
		verdict, err = w.Deregister(ctx, j.WorkspaceID, j.Incarnation)
		switch {
		case ctx.Err() != nil:
			return requeued()
		case err != nil:
			return retried(err)
		case !verdict.Done:
			return deferred(verdict.Why, verdict.Wait)
		}
	}
	if _, err := w.Writer.Drained(ctx, j.lease(), verdict.Why); err != nil {
		return unrecorded("record drain", err)
	}
	return done(w.retires)
}

// delete repeats until the provider has nothing left: deleting -> deleted. A forced one ends whatever the provider says.
func (w *Worker) delete(ctx context.Context, j *work) outcome {
	err := w.read(ctx, j)
	if err != nil {
		return unrecorded("read workspace", err)
	}
	if j.provider, err = w.Providers.Get(j.Provider); err == nil && j.mayExist() {
		err = w.call(ctx, w.Timeouts.Delete, func(ctx context.Context) error { return j.provider.Delete(ctx, j.ref) })
	}
	if ctx.Err() != nil {
		return requeued()
	}
	reason, fault := "nothing is left at the provider", ""
	if err != nil {
		if !j.Force {
			return retried(err)
		}
		reason, fault = "forced", text("deleted by force although: "+err.Error())
	}
	how := freed{proven: err == nil, failed: j.info.Workspace.Fault != "", why: fault}
	if err := w.freeMachine(ctx, j, how); err != nil {
		return unrecorded("give machine back", err)
	}
	moved, err := w.Writer.Gone(ctx, j.lease(), reason, fault)
	if err != nil {
		return unrecorded("record deletion", err)
	}
	return done(nil, moved.TemplateID)
}

// carryOutIntents drains and cancels what passes want gone, until ctx ends. An intent whose workspace was claimed, or
// has already gone, is dropped: claims win (I2).
func (w *Worker) carryOutIntents(ctx context.Context) {
	timer := w.Clock.NewTimer(poll, "lifecycle", "intents")
	defer timer.Stop()
	for {
		n, err := w.someIntents(ctx)
		moves, movesErr := w.someMoves(ctx)
		n, err = max(n, moves), errors.Join(err, movesErr)
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

// someIntents carries out the oldest ones and returns how many there were. One that fails stops no other.
func (w *Worker) someIntents(ctx context.Context) (int, error) {
	due, err := w.Store.DueIntents(ctx, intentBatch)
	if err != nil {
		return 0, xerrors.Errorf("read intents: %w", err)
	}
	failed := 0
	for _, in := range due {
		if err := w.carryOut(ctx, in); err != nil {
			failed++
			w.log.Warn(ctx, "carry out an intent", slog.F("workspace_id", in.WorkspaceID), slog.Error(err))
		}
	}
	if len(due) > failed {
		signal(w.retires.wake)
	}
	return len(due) - failed, nil
}

func (w *Worker) carryOut(ctx context.Context, in database.DueIntentsRow) error {
	opts := database.TxOptions{Label: "carry out intent"}
	return w.Store.InTx(ctx, opts, func(ctx context.Context, q *database.Queries, _ pgx.Tx) error {
		mine, err := q.LockIntent(ctx, database.LockIntentParams{WorkspaceID: in.WorkspaceID, Incarnation: in.Incarnation})
		if err != nil || len(mine) == 0 {
			return err
		}
		if err := tracing.Carry(ctx, q); err != nil {
			return err
		}
		err = workspaces.ErrLost
		if in.Kind == database.IntentKindCancel {
			_, err = w.Writer.Cancel(ctx, q, in.WorkspaceID, in.Incarnation, in.Reason)
		}
		if errors.Is(err, workspaces.ErrLost) { // to be drained, or created before it could be cancelled
			_, err = w.Writer.Drain(ctx, q, in.WorkspaceID, in.Incarnation, in.Reason)
		}
		if err != nil && !errors.Is(err, workspaces.ErrLost) {
			return err
		}
		return q.DeleteIntent(ctx, database.DeleteIntentParams{WorkspaceID: in.WorkspaceID, Incarnation: in.Incarnation})
	})
}

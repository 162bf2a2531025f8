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
func (w *Worker) drain(ctx context.Context, job database.Job) {
	verdict := Verdict{Done: true, Why: "never registered"}
	if w.Deregister != nil {
		var err error
		verdict, err = w.Deregister(ctx, job.WorkspaceID, job.Incarnation)
		switch {
		case ctx.Err() != nil:
			w.letGo(ctx, job)
			return
		case err != nil:
			w.retry(ctx, job, err)
			return
		case !verdict.Done:
			w.deferJob(ctx, job, verdict.Why, verdict.Wait)
			return
		}
	}
	if _, err := w.Writer.Drained(ctx, leaseOf(job), verdict.Why); err != nil {
		w.lostOr(ctx, job, "record drain", err)
		return
	}
	signal(w.retires.wake)
}

// delete repeats until the provider has nothing left: deleting -> deleted. A forced one ends whatever the provider says.
func (w *Worker) delete(ctx context.Context, job database.Job) {
	fault := ""
	info, err := w.Store.JobForWork(ctx, job.WorkspaceID)
	if err != nil {
		w.lostOr(ctx, job, "read workspace", err)
		return
	}
	p, err := w.Providers.Get(job.Provider)
	if err == nil {
		if ref := refOf(info); mayExist(p, ref) {
			err = w.call(ctx, w.Timeouts.Delete, func(ctx context.Context) error { return p.Delete(ctx, ref) })
		}
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
		reason, fault = "forced", text("deleted by force although: "+err.Error())
	}
	back := givenBack{proven: err == nil, failed: info.Workspace.Fault != ""}
	if err != nil {
		back.why = fault
	}
	if err := w.giveBack(ctx, job, refOf(info), back); err != nil {
		w.lostOr(ctx, job, "give machine back", err)
		return
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

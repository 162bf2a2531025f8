package lifecycle

import (
	"context"
	"errors"

	"cdr.dev/slog"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// drain unregisters a runner at its forge: draining -> deleting. Busy is a veto: it stays draining, however long its job takes
// (P7, A6). What a forge did not say is waited for as well.
func (w *Worker) drain(ctx context.Context, j *work) outcome {
	verdict := provider.Verdict{Done: true, Why: "no runner to unregister"}
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
	if _, err := w.Writer.Drained(ctx, j.held(), verdict.Why); err != nil {
		return unrecorded("record drain", err)
	}
	return done(w.retires)
}

// delete repeats until the provider has nothing left: deleting -> deleted. A forced one, and any at a provider that
// was deleted by force, ends whatever the provider says.
func (w *Worker) delete(ctx context.Context, j *work) outcome {
	begun := w.Clock.Now("lifecycle", "delete")
	err := w.read(ctx, j)
	if err != nil {
		return unrecorded("read workspace", err)
	}
	if err = w.find(j); err == nil && j.mayExist() {
		err = w.call(ctx, w.Timeouts.Delete, func(ctx context.Context) error { return j.provider.Delete(ctx, j.ref) })
	}
	if ctx.Err() != nil {
		return requeued()
	}
	reason, fault := "nothing is left at the provider", ""
	if err != nil {
		_, ours := errors.AsType[*provider.StateError](err)
		switch {
		case ours:
			return retried(err)
		case j.Force:
			reason, fault = "forced", text("deleted by force although: "+err.Error())
		case j.info.ProviderGivenUp:
			reason, fault = "its provider was deleted by force", text("given up with its provider although: "+err.Error())
		default:
			return retried(err)
		}
	}
	how := freed{proven: err == nil, failed: j.info.Workspace.Fault != "", why: fault}
	if err := w.freeMachine(ctx, j, how); err != nil {
		return unrecorded("give machine back", err)
	}
	moved, err := w.Writer.Gone(ctx, j.held(), reason, fault)
	if err != nil {
		return unrecorded("record deletion", err)
	}
	w.succeeded(ctx, j, "workspace deleted", begun, slog.F("why", reason))
	return done(nil, moved.TemplateID)
}

package lifecycle

import (
	"cmp"
	"context"
	"errors"

	"cdr.dev/slog"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// reset makes a released workspace like new: starting -> starting with a probe job, a retry, or -> deleting. The provider
// refuses one that comes late, by the incarnation; what is of this incarnation already was reset before.
func (w *Worker) reset(ctx context.Context, j *work) outcome {
	if o, ok := w.load(ctx, j); !ok {
		return o
	}
	token := w.wantsToken(j)
	if token && j.Attempt > 1 {
		// What the attempt before handed over is a token that is refused from now on (G7), and may be in there already.
		return w.resetFailed(ctx, j, "reset was interrupted: "+cmp.Or(j.LastError, "its replica went away"))
	}
	resetter, ok := provider.As[provider.Resetter](j.provider)
	if !ok {
		return w.resetFailed(ctx, j, "the provider cannot reset a workspace")
	}
	req, err := w.request(ctx, j, token)
	if err != nil {
		return postponed(err)
	}
	inst, err := w.make(ctx, j, req, resetter.Reset)
	if err != nil {
		return w.refused(ctx, j, err)
	}
	o := w.recordMade(ctx, j, "record reset", inst, w.Writer.Reset)
	if o.end == isDone {
		w.metrics.resets.WithLabelValues("done").Inc()
	}
	return o
}

// resetFailed gives up on using a workspace again.
func (w *Worker) resetFailed(ctx context.Context, j *work, fault string) outcome {
	moved, err := w.Writer.ResetFailed(ctx, j.held(), text("reset: "+fault))
	if err != nil {
		return unrecorded("record failed reset", err)
	}
	w.metrics.resets.WithLabelValues("failed").Inc()
	w.log.Warn(ctx, "workspace is not used again", slog.F("workspace_id", j.WorkspaceID), slog.Error(errors.New(fault)))
	return done(w.retires, moved.TemplateID)
}

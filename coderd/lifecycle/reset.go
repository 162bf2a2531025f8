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
)

// reset makes a released workspace like new: starting -> starting with a probe job, a retry, or -> deleting. The provider
// refuses one that comes late, by the incarnation; what is of this incarnation already was reset before.
func (w *Worker) reset(ctx context.Context, job database.Job) {
	info, p, ok := w.load(ctx, job)
	if !ok {
		return
	}
	token := w.wantsToken(p, info)
	if token && job.Attempt > 1 {
		// What the attempt before handed over is a token that is refused from now on (G7), and may be in there already.
		w.resetFailed(ctx, job, xerrors.New("reset was interrupted: "+whyAgain(job)))
		return
	}
	resetter, ok := provider.As[provider.Resetter](p)
	if !ok {
		w.resetFailed(ctx, job, xerrors.New("the provider cannot reset a workspace"))
		return
	}
	req, err := w.request(ctx, job, info, token)
	if err != nil {
		w.postpone(ctx, job, err)
		return
	}
	var inst provider.Instance
	err = w.call(ctx, time.Duration(info.BootTimeoutS)*time.Second, func(ctx context.Context) (err error) {
		inst, err = resetter.Reset(ctx, req)
		return err
	})
	switch {
	case ctx.Err() != nil:
		w.removeLate(ctx, p, refOf(info))
		w.letGo(ctx, job)
		return
	case err == nil && inst.Status == provider.StatusError:
		w.resetFailed(ctx, job, xerrors.New("the provider reports an error: "+inst.Fault))
		return
	case err != nil && (provider.IsPermanent(err) || errors.Is(err, provider.ErrNotFound) || job.Failures+1 >= maxFailures):
		w.resetFailed(ctx, job, err)
		return
	case err != nil:
		w.retry(ctx, job, err)
		return
	}
	if _, err := w.Writer.Reset(ctx, leaseOf(job), facts(inst)); err != nil {
		if errors.Is(err, workspaces.ErrLost) {
			w.removeLate(ctx, p, refOf(info))
		}
		w.lostOr(ctx, job, "record reset", err)
		return
	}
	w.metrics.resets.WithLabelValues("done").Inc()
	signal(w.probes.wake)
}

func whyAgain(job database.Job) string {
	if job.LastError != "" {
		return job.LastError
	}
	return "its replica went away"
}

// resetFailed gives up on using a workspace again.
func (w *Worker) resetFailed(ctx context.Context, job database.Job, cause error) {
	moved, err := w.Writer.ResetFailed(ctx, leaseOf(job), text("reset: "+cause.Error()))
	if err != nil {
		w.lostOr(ctx, job, "record failed reset", err)
		return
	}
	w.metrics.resets.WithLabelValues("failed").Inc()
	w.log.Warn(ctx, "workspace is not used again", slog.F("workspace_id", job.WorkspaceID), slog.Error(cause))
	signal(w.retires.wake)
	w.Nudge(moved.TemplateID)
}

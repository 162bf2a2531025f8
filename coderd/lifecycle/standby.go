package lifecycle

import (
	"context"
	"errors"

	"cdr.dev/slog"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/lifecycledb"
)

// stop stops a workspace in standby, and tries for ever: one that runs on costs money and harms nobody, for a start finds
// it running. One that is gone is replaced.
func (w *Worker) stop(ctx context.Context, j *work) outcome {
	if o, ok := w.load(ctx, j); !ok {
		return o
	}
	if j.info.Workspace.State != database.WorkspaceStateStandby { // a claim or a drain came first, and cancelled the job
		return requeued()
	}
	stopper, ok := provider.As[provider.Stopper](j.provider)
	if !ok {
		return retried(xerrors.New("the provider cannot stop a workspace"))
	}
	err := w.call(ctx, w.Timeouts.Power, func(ctx context.Context) error { return stopper.Stop(ctx, j.ref) })
	switch {
	case ctx.Err() != nil:
		w.startTaken(ctx, j)
		return requeued()
	case errors.Is(err, provider.ErrNotFound):
		moved, err := w.Writer.Drain(ctx, w.Store, j.WorkspaceID, j.Incarnation, "the workspace vanished in standby")
		if err != nil {
			return unrecorded("drain what vanished", err)
		}
		return done(w.retires, moved.TemplateID)
	case err != nil:
		return retried(err)
	}
	if err := w.Writer.Stopped(ctx, j.held()); err != nil {
		return unrecorded("record stop", err)
	}
	w.metrics.stops.WithLabelValues(j.Provider).Inc()
	return done(nil)
}

// start starts what was in standby: for the pool, or for the claim that holds it. The probe that follows asks for its
// readiness.
func (w *Worker) start(ctx context.Context, j *work) outcome {
	started := w.startAwaited(j) // before anything is asked for: the create in its place is only a pass behind
	defer started()
	if o, ok := w.load(ctx, j); !ok {
		return o
	}
	if err := lifecycledb.New(w.Store).ExpectAgentAgain(ctx, lifecycledb.ExpectAgentAgainParams{JobID: j.ID, Attempt: j.Attempt}); err != nil {
		return unrecorded("expect agent again", err)
	}
	stopper, ok := provider.As[provider.Stopper](j.provider)
	if !ok {
		return w.giveUp(ctx, j, "the provider cannot start a workspace", true)
	}
	w.markFirst(ctx, j)
	err := w.call(ctx, w.Timeouts.Power, func(ctx context.Context) error { return stopper.Start(ctx, j.ref) })
	started()
	if err != nil {
		return w.refused(ctx, j, err)
	}
	if err := w.Writer.Started(ctx, j.held()); err != nil {
		return unrecorded("record start", err)
	}
	return done(w.probes)
}

// markFirst has the provider show the claim before the start: what it gives only to claimed workspaces is then there from the start,
// and not changed under the agent's feet. Where it fails, an inventory makes up for it.
func (w *Worker) markFirst(ctx context.Context, j *work) {
	if _, marks := provider.As[provider.Marker](j.provider); !marks || w.Mark == nil ||
		j.info.Workspace.State != database.WorkspaceStateClaimed {
		return
	}
	if err := w.Mark(ctx, j.WorkspaceID); err != nil && ctx.Err() == nil {
		w.log.Debug(ctx, "mark a workspace before its start", slog.F("workspace", j.info.Workspace.Name), slog.Error(err))
	}
}

// claimStarted records that a claim has what it was promised.
func (w *Worker) claimStarted(ctx context.Context, j *work, inst provider.Instance) outcome {
	took, err := w.Writer.ClaimStarted(ctx, j.held(), facts(inst))
	if err != nil {
		return unrecorded("record start for claim", err)
	}
	w.metrics.claimStarts.WithLabelValues("started").Inc()
	w.metrics.claimStart.Observe(took)
	return done(nil)
}

// claimNotStarted tells people: nothing else is done to a claimed workspace (I2).
func (w *Worker) claimNotStarted(ctx context.Context, j *work, fault string) outcome {
	if _, err := w.Writer.ClaimNotStarted(ctx, j.held(), text(fault)); err != nil {
		return unrecorded("record failed start", err)
	}
	w.metrics.claimStarts.WithLabelValues("failed").Inc()
	w.log.Error(ctx, "a claimed workspace could not be started, and is left to its owner",
		slog.F("workspace", j.info.Workspace.Name), slog.F("workspace_id", j.WorkspaceID), slog.F("fault", text(fault)))
	return done(nil)
}

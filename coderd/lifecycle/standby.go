package lifecycle

import (
	"context"
	"errors"

	"cdr.dev/slog"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/tracing"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

// stop stops a workspace in standby, and tries for ever: one that runs on costs money and harms nobody, for a start finds
// it running. One that is gone is replaced.
func (w *Worker) stop(ctx context.Context, job database.Job) {
	info, p, ok := w.load(ctx, job)
	if !ok {
		return
	}
	if info.Workspace.State != database.WorkspaceStateStandby { // a claim or a drain came first, and cancelled the job
		w.letGo(ctx, job)
		return
	}
	err := w.stopCall(ctx, p, refOf(info))
	if ctx.Err() != nil {
		w.startTaken(ctx, p, refOf(info))
		w.letGo(ctx, job)
		return
	}
	switch {
	case errors.Is(err, provider.ErrNotFound):
		w.drainMissing(ctx, job)
	case err != nil:
		w.retry(ctx, job, err)
	default:
		if err := w.Writer.Stopped(ctx, leaseOf(job)); err != nil {
			w.lostOr(ctx, job, "record stop", err)
			return
		}
		w.metrics.stops.WithLabelValues(job.Provider).Inc()
	}
}

func (w *Worker) stopCall(ctx context.Context, p provider.Provider, ref provider.Ref) error {
	stopper, ok := provider.As[provider.Stopper](p)
	if !ok {
		return xerrors.New("the provider cannot stop a workspace")
	}
	return w.call(ctx, w.Timeouts.Power, func(ctx context.Context) error { return stopper.Stop(ctx, ref) })
}

// drainMissing lets go of a workspace whose resource vanished in standby.
func (w *Worker) drainMissing(ctx context.Context, job database.Job) {
	moved, err := w.Writer.Drain(ctx, w.Store.Queries, job.WorkspaceID, job.Incarnation, "the workspace vanished in standby")
	if err != nil {
		w.lostOr(ctx, job, "drain what vanished", err)
		return
	}
	signal(w.retires.wake)
	w.Nudge(moved.TemplateID)
}

// startTaken sees to what a stop may have done after its lease had ended: a workspace that was claimed or started meanwhile
// is stopped. A claimed one is started again, and one of the pool is replaced.
func (w *Worker) startTaken(ctx context.Context, p provider.Provider, ref provider.Ref) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	const reason = "it was stopped by a worker that had lost its lease"
	now, err := w.Store.WorkspaceState(ctx, ref.WorkspaceID)
	if err != nil {
		w.log.Warn(ctx, "look after what was stopped too late", slog.F("workspace", ref.Name), slog.Error(err))
		return
	}
	switch now.State {
	case database.WorkspaceStateStarting, database.WorkspaceStateReady, database.WorkspaceStateClaimed:
	default:
		return // it goes, or is to be stopped
	}
	inst, err := p.Get(ctx, ref)
	switch {
	case err != nil || inst.Status != provider.StatusStopped: // nothing was taken, or somebody else sees to it
	case now.State == database.WorkspaceStateClaimed:
		err = w.Writer.StartAgain(ctx, now.ID, now.Incarnation, reason)
	default:
		_, err = w.Writer.Drain(ctx, w.Store.Queries, now.ID, now.Incarnation, reason)
	}
	if err != nil && !errors.Is(err, workspaces.ErrLost) && !errors.Is(err, provider.ErrNotFound) {
		w.log.Warn(ctx, "look after what was stopped too late", slog.F("workspace", ref.Name), slog.Error(err))
	}
	w.Wake()
	w.Nudge(now.TemplateID)
}

// start starts what was in standby: for the pool, or for the claim that holds it. The probe that follows asks for its
// readiness.
func (w *Worker) start(ctx context.Context, job database.Job) {
	started := w.startAwaited(job) // before anything is asked for: the create in its place is only a pass behind
	defer started()
	info, p, ok := w.load(ctx, job)
	if !ok {
		return
	}
	if err := w.Store.ExpectAgentAgain(ctx, database.ExpectAgentAgainParams{JobID: job.ID, Attempt: job.Attempt}); err != nil {
		w.lostOr(ctx, job, "expect agent again", err)
		return
	}
	stopper, ok := provider.As[provider.Stopper](p)
	if !ok {
		w.notStarted(ctx, job, info, p, xerrors.New("the provider cannot start a workspace"), true)
		return
	}
	err := w.call(ctx, w.Timeouts.Power, func(ctx context.Context) error { return stopper.Start(ctx, refOf(info)) })
	started()
	switch {
	case ctx.Err() != nil:
		w.letGo(ctx, job)
		return
	case err != nil && (provider.IsPermanent(err) || errors.Is(err, provider.ErrNotFound) || job.Failures+1 >= maxFailures):
		w.notStarted(ctx, job, info, p, err, provider.IsPermanent(err))
		return
	case err != nil:
		w.retry(ctx, job, err)
		return
	}
	if err := w.Writer.Started(ctx, leaseOf(job)); err != nil {
		w.lostOr(ctx, job, "record start", err)
		return
	}
	signal(w.probes.wake)
}

// notStarted gives up on a start: a prebuild failed, and a claimed workspace is left to its owner with the fault.
func (w *Worker) notStarted(
	ctx context.Context, job database.Job, info database.JobForWorkRow, p provider.Provider, cause error, permanent bool,
) {
	fault := "start: " + cause.Error()
	if info.Workspace.State == database.WorkspaceStateClaimed {
		w.claimNotStarted(ctx, job, info, fault)
		return
	}
	w.failed(ctx, job, info, p, "", fault, permanent)
}

// claimStarted records that a claim has what it was promised.
func (w *Worker) claimStarted(ctx context.Context, job database.Job, inst provider.Instance) {
	took, err := w.Writer.ClaimStarted(ctx, leaseOf(job), facts(inst))
	if err != nil {
		w.lostOr(ctx, job, "record start for claim", err)
		return
	}
	w.metrics.claimStarts.WithLabelValues("started").Inc()
	w.metrics.claimStart.Observe(took)
}

// claimNotStarted tells people: nothing else is done to a claimed workspace (I2).
func (w *Worker) claimNotStarted(ctx context.Context, job database.Job, info database.JobForWorkRow, fault string) {
	if _, err := w.Writer.ClaimNotStarted(ctx, leaseOf(job), text(fault)); err != nil {
		w.lostOr(ctx, job, "record failed start", err)
		return
	}
	w.metrics.claimStarts.WithLabelValues("failed").Inc()
	w.log.Error(ctx, "a claimed workspace could not be started, and is left to its owner",
		slog.F("workspace", info.Workspace.Name), slog.F("workspace_id", job.WorkspaceID), slog.F("fault", text(fault)))
}

// someMoves carries out the oldest moves between the tiers and returns how many there were. One that fails stops no other.
func (w *Worker) someMoves(ctx context.Context) (int, error) {
	due, err := w.Store.DueMoves(ctx, intentBatch)
	if err != nil {
		return 0, xerrors.Errorf("read moves: %w", err)
	}
	failed := 0
	for _, m := range due {
		if err := w.carryOutMove(ctx, m); err != nil {
			failed++
			w.log.Warn(ctx, "carry out a move", slog.F("workspace_id", m.WorkspaceID), slog.Error(err))
		}
	}
	if len(due) > failed {
		signal(w.starts.wake)
		signal(w.retires.wake)
	}
	return len(due) - failed, nil
}

// carryOutMove stops or starts one of the pool, unless a claim or a drain came first: then the move is dropped (I2).
func (w *Worker) carryOutMove(ctx context.Context, m database.DueMovesRow) error {
	opts := database.TxOptions{Label: "carry out move"}
	return w.Store.InTx(ctx, opts, func(ctx context.Context, q *database.Queries, _ pgx.Tx) error {
		mine, err := q.LockMove(ctx, database.LockMoveParams{WorkspaceID: m.WorkspaceID, Incarnation: m.Incarnation})
		if err != nil || len(mine) == 0 {
			return err
		}
		if err := tracing.Carry(ctx, q); err != nil {
			return err
		}
		if m.Kind == database.StandbyMoveKindStop {
			_, err = w.Writer.Stop(ctx, q, m.WorkspaceID, m.Incarnation, m.Reason)
		} else {
			_, err = w.Writer.Start(ctx, q, m.WorkspaceID, m.Incarnation, m.Reason)
		}
		if err != nil && !errors.Is(err, workspaces.ErrLost) {
			return err
		}
		return q.DeleteMove(ctx, database.DeleteMoveParams{WorkspaceID: m.WorkspaceID, Incarnation: m.Incarnation})
	})
}

package lifecycle

import (
	"context"
	"errors"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/wait"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/lifecycledb"
)

const (
	// lastWords bounds what is still written after a job's context ended.
	lastWords = 2 * time.Second
	// handBackEvery is how often a database that is away is asked for.
	handBackEvery = 200 * time.Millisecond
)

// work is a leased job, and what its task reads of it.
type work struct {
	database.Job
	info     lifecycledb.JobForWorkRow
	provider provider.Provider // nil: it can't be made
	ref      provider.Ref      // the resource, and the workspace it must be tagged with: another's is never touched
	made     string            // the provider's id of what a create that failed has made, if it said so
}

func (j *work) held() workspaces.Lease {
	return workspaces.Lease{
		JobID: j.ID, Attempt: j.Attempt, WorkspaceID: j.WorkspaceID, Incarnation: j.Incarnation,
	}
}

// outcome is what came of a task: settle carries it out. Where the job's context has ended, or the job is another's by now,
// only a done one counts, and the others are requeued.
type outcome struct {
	end   ending
	cause error
	what  string        // unrecorded: what could not be read or written
	pause time.Duration // deferred: until it is asked again
	wake  *lane         // done: where the next job of the workspace is; nil: nowhere
	nudge []uuid.UUID   // done: templates that need a pass
	then  func()        // after all of that; nil: nothing
}

type ending int

const (
	isDone ending = iota
	isRetried
	isPostponed
	isDeferred
	isUnrecorded
	isRequeued
)

// done: it is recorded, or there is nothing left to do.
func done(wake *lane, nudge ...uuid.UUID) outcome {
	return outcome{end: isDone, wake: wake, nudge: nudge}
}

// retried: the provider failed, and is asked again after a backoff.
func retried(cause error) outcome { return outcome{end: isRetried, cause: cause} }

// postponed: it could not be begun for a reason on this side. That is no failure of the provider's.
func postponed(cause error) outcome { return outcome{end: isPostponed, cause: cause} }

// deferred makes room for others while a workspace takes its time.
func deferred(why string, pause time.Duration) outcome {
	return outcome{end: isDeferred, cause: errors.New(why), pause: pause}
}

// unrecorded: a read or a write of the job's own failed.
func unrecorded(what string, err error) outcome {
	return outcome{end: isUnrecorded, what: what, cause: err}
}

// requeued: the provider is no longer being called for a job that is not, or no longer, this replica's to end.
func requeued() outcome { return outcome{end: isRequeued} }

// settle carries out what came of a task.
func (w *Worker) settle(ctx context.Context, j *work, o outcome) {
	if o.then != nil {
		defer o.then()
	}
	if o.end != isDone && (ctx.Err() != nil || errors.Is(o.cause, workspaces.ErrLost)) {
		o.end = isRequeued
	}
	fields := []any{slog.F("workspace_id", j.WorkspaceID), slog.F("job", j.Kind), slog.Error(o.cause)}
	var err error
	switch o.end {
	case isDone:
		if o.wake != nil {
			o.wake.wake.Ring()
		}
		if len(o.nudge) > 0 {
			w.Hints.Nudge(o.nudge...)
		}
	case isRetried:
		pause := lease.Backoff(j.Failures, w.Jitter)
		w.metrics.retries.WithLabelValues(string(j.Kind), j.Provider).Inc()
		w.log.Warn(ctx, "job will be retried", append(fields, slog.F("failures", j.Failures+1), slog.F("in", pause.String()))...)
		_, err = lifecycledb.New(w.Store).RetryJob(ctx, lifecycledb.RetryJobParams{
			ID: j.ID, Attempt: j.Attempt, LastError: text(o.cause.Error()), BackoffS: pause.Seconds(),
		})
		o.what = "store retry"
	case isPostponed:
		o.pause = lease.Backoff(min(j.Attempt, 4), w.Jitter)
		w.log.Warn(ctx, "job is postponed", append(fields, slog.F("in", o.pause.String()))...)
		fallthrough
	case isDeferred:
		_, err = lifecycledb.New(w.Store).DeferJob(ctx, lifecycledb.DeferJobParams{
			ID: j.ID, Attempt: j.Attempt, LastError: text(o.cause.Error()), DelayS: o.pause.Seconds(),
		})
		o.what = "defer job"
	case isUnrecorded:
		fields = append(fields, slog.F("what", o.what))
		if !database.IsConnection(o.cause) && !errors.Is(o.cause, database.ErrCommitUnknown) {
			w.log.Error(ctx, "job is left to the end of its lease", fields...) // after which it is done again
			return
		}
		w.log.Warn(ctx, "job is handed back when the database is there again", fields...)
		w.handBack(ctx, j)
	case isRequeued:
		w.requeue(ctx, j)
	}
	if err != nil {
		w.settle(ctx, j, unrecorded(o.what, err))
	}
}

// succeeded writes the line of a create or a delete that is recorded.
func (w *Worker) succeeded(ctx context.Context, j *work, message string, begun time.Time, field slog.Field) {
	w.log.Info(ctx, message, slog.F("workspace", j.info.Workspace.Name), slog.F("workspace_id", j.WorkspaceID),
		slog.F("preset", j.info.Template+"/"+j.info.Preset), slog.F("provider", j.Provider), field,
		slog.F("attempt", j.Attempt), slog.F("took", w.Clock.Since(begun, "lifecycle", "succeeded").String()))
}

// handBack returns a job whose outcome could not be written, or may have been, as soon as the database can be asked. It
// is then done anew, from the state that it has by then; if it was written after all, there is nothing to return.
func (w *Worker) handBack(ctx context.Context, j *work) {
	for w.sleep(ctx, handBackEvery) {
		if w.returnJob(ctx, j) == nil {
			w.Wake()
			return
		}
	}
	w.requeue(ctx, j)
}

func (w *Worker) returnJob(ctx context.Context, j *work) error {
	_, err := lifecycledb.New(w.Store).ReturnJobs(ctx, lifecycledb.ReturnJobsParams{Ids: []uuid.UUID{j.ID}, Attempts: []int32{j.Attempt}})
	return err
}

// requeue lets another go on at once: with the job if the replica stops, with its clean-up if it was cancelled.
func (w *Worker) requeue(ctx context.Context, j *work) {
	stopping := ctx.Err() != nil && !errors.Is(context.Cause(ctx), lease.ErrLost)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	if stopping {
		if err := w.returnJob(ctx, j); err != nil {
			w.log.Warn(ctx, "return lease", slog.Error(err))
		}
		return
	}
	n, err := lifecycledb.New(w.Store).ReleaseCleanup(ctx, lifecycledb.ReleaseCleanupParams{JobID: j.ID, Attempt: j.Attempt})
	if err != nil {
		w.log.Debug(ctx, "release clean-up", slog.Error(err))
	}
	if n > 0 {
		w.retires.wake.Ring()
		w.starts.wake.Ring()
	}
}

// sleep is false if ctx ended first.
func (w *Worker) sleep(ctx context.Context, d time.Duration) bool {
	return wait.For(ctx, w.Clock, d, "lifecycle", "sleep") == nil
}

package lifecycle

import (
	"context"
	"errors"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	firstBackoff = time.Second // G5: doubling to
	mostBackoff  = 5 * time.Minute
	// lastWords bounds what is still written after a job's context ended.
	lastWords = 2 * time.Second
	// handBackEvery is how often a database that is away is asked for.
	handBackEvery = 200 * time.Millisecond
)

// backoff after the nth failure: 1 s doubling to 5 min, each between half and all of it.
func (w *Worker) backoff(failures int32) time.Duration {
	d := min(firstBackoff<<min(failures, 16), mostBackoff)
	return d/2 + w.Jitter(d/2)
}

// retry puts the job back with its cause.
func (w *Worker) retry(ctx context.Context, job database.Job, cause error) {
	if ctx.Err() != nil {
		w.letGo(ctx, job)
		return
	}
	pause := w.backoff(job.Failures)
	w.metrics.retries.WithLabelValues(string(job.Kind), job.Provider).Inc()
	w.log.Warn(ctx, "job will be retried", slog.F("workspace_id", job.WorkspaceID), slog.F("job", job.Kind),
		slog.F("failures", job.Failures+1), slog.F("in", pause.String()), slog.Error(cause))
	_, err := w.Store.RetryJob(ctx, database.RetryJobParams{
		ID: job.ID, Attempt: job.Attempt, LastError: text(cause.Error()), BackoffS: pause.Seconds(),
	})
	if err != nil {
		w.lostOr(ctx, job, "store retry", err)
	}
}

// postpone puts a job back that could not be begun for a reason on this side. That is no failure of the provider's.
func (w *Worker) postpone(ctx context.Context, job database.Job, cause error) {
	if ctx.Err() != nil || errors.Is(cause, workspaces.ErrLost) {
		w.letGo(ctx, job)
		return
	}
	pause := w.backoff(min(job.Attempt, 4))
	w.log.Warn(ctx, "job is postponed", slog.F("workspace_id", job.WorkspaceID), slog.F("job", job.Kind),
		slog.F("in", pause.String()), slog.Error(cause))
	w.deferJob(ctx, job, cause.Error(), pause)
}

// deferJob makes room for others while a workspace takes its time.
func (w *Worker) deferJob(ctx context.Context, job database.Job, why string, pause time.Duration) {
	_, err := w.Store.DeferJob(ctx, database.DeferJobParams{
		ID: job.ID, Attempt: job.Attempt, LastError: text(why), DelayS: pause.Seconds(),
	})
	if err != nil {
		w.lostOr(ctx, job, "defer job", err)
	}
}

// lostOr handles an error of a write that ends a job. Losing the race is expected. If the database was away the job is
// handed back when it is there again; anything else leaves it to its lease, after which it is done again.
func (w *Worker) lostOr(ctx context.Context, job database.Job, what string, err error) {
	if errors.Is(err, workspaces.ErrLost) || ctx.Err() != nil {
		w.letGo(ctx, job)
		return
	}
	fields := []any{
		slog.F("what", what), slog.F("job", job.Kind), slog.F("workspace_id", job.WorkspaceID), slog.Error(err),
	}
	if database.IsConnection(err) || errors.Is(err, database.ErrCommitUnknown) {
		w.log.Warn(ctx, "job is handed back when the database is there again", fields...)
		w.handBack(ctx, job)
		return
	}
	w.log.Error(ctx, "job is left to the end of its lease", fields...)
}

// handBack returns a job whose outcome could not be written, or may have been, as soon as the database can be asked. It
// is then done anew, from the state that it has by then; if it was written after all, there is nothing to return.
func (w *Worker) handBack(ctx context.Context, job database.Job) {
	for w.sleep(ctx, handBackEvery) {
		_, err := w.Store.ReturnJobs(ctx, database.ReturnJobsParams{
			Ids: []uuid.UUID{job.ID}, Attempts: []int32{job.Attempt},
		})
		if err == nil {
			w.Wake()
			return
		}
	}
	w.letGo(ctx, job)
}

// letGo is called when the provider is no longer being called for a job that is not, or no longer, this replica's to
// end. If it was cancelled, its clean-up may start at once; if the replica stops, another may take it at once.
func (w *Worker) letGo(ctx context.Context, job database.Job) {
	lost := errors.Is(context.Cause(ctx), errLeaseLost)
	stopping := ctx.Err() != nil && !lost
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
	defer cancel()
	if stopping {
		_, err := w.Store.ReturnJobs(ctx, database.ReturnJobsParams{
			Ids: []uuid.UUID{job.ID}, Attempts: []int32{job.Attempt},
		})
		if err != nil {
			w.log.Warn(ctx, "return lease", slog.Error(err))
		}
		return
	}
	n, err := w.Store.ReleaseCleanup(ctx, database.ReleaseCleanupParams{JobID: job.ID, Attempt: job.Attempt})
	if err != nil {
		w.log.Debug(ctx, "release clean-up", slog.Error(err))
	}
	if n > 0 {
		signal(w.retires.wake)
		signal(w.starts.wake)
	}
}

// sleep is false if ctx ended first.
func (w *Worker) sleep(ctx context.Context, d time.Duration) bool {
	timer := w.Clock.NewTimer(d, "lifecycle", "sleep")
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

package lifecycle

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/lifecycledb"
)

// task does one leased job, and says what came of it. Its context ends with the lease.
type task func(ctx context.Context, j *work) outcome

// lane is a number of slots for some kinds of job.
type lane struct {
	w     *Worker
	name  string
	slots int
	tasks map[database.JobKind]task
	kinds []database.JobKind // in the order in which they are leased
	wake  hints.Bell
}

func newLane(w *Worker, name string, slots int, tasks map[database.JobKind]task, first ...database.JobKind) *lane {
	kinds := slices.Sorted(maps.Keys(tasks))
	kinds = append(first, slices.DeleteFunc(kinds, func(k database.JobKind) bool { return slices.Contains(first, k) })...)
	return &lane{w: w, name: name, slots: slots, tasks: tasks, wake: hints.NewBell(), kinds: kinds}
}

// run leases until ctx ends, and returns when the last of its jobs has. The jobs run on their own context, which ends
// later.
func (l *lane) run(ctx, jobs context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	free := make(chan struct{}, l.slots)
	for range l.slots {
		free <- struct{}{}
	}
	var pause time.Duration
	lease.Loop{
		Clock: l.w.Clock, Log: l.w.log.With(slog.F("lane", l.name)), What: "lease jobs", Tags: []string{"lifecycle", l.name},
		Wake: l.wake, Pause: func() time.Duration { return pause },
	}.Run(ctx, func(ctx context.Context) error {
		for ctx.Err() == nil {
			pause = poll/2 + l.w.Jitter(poll/2)
			n := len(free) // only this goroutine takes slots, so it is a lower bound
			if n == 0 {
				return nil
			}
			asked := l.w.Clock.Now("lifecycle", "lease")
			leased, err := l.lease(ctx, n)
			for _, job := range leased {
				<-free
				running.Go(func() {
					defer func() {
						free <- struct{}{}
						l.wake.Ring() // there may be more
					}()
					l.do(jobs, job, asked)
				})
			}
			if err != nil {
				return err
			}
			if len(leased) < n {
				pause = min(pause, l.nextDue(ctx))
				return nil
			}
		}
		return nil
	})
}

// lease takes up to n jobs, of any kind and provider of the lane. It does not end with ctx, so that no lease is lost
// track of; what it brings while the replica stops is returned with the rest.
func (l *lane) lease(ctx context.Context, n int) ([]database.Job, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.w.held.Margin())
	defer cancel()
	var leased []database.Job
	for _, kind := range l.kinds {
		for _, name := range l.w.Providers.Names() {
			if len(leased) == n {
				return leased, nil
			}
			if kind == database.JobKindHandover && !l.w.handsOver(name) {
				continue
			}
			jobs, err := lifecycledb.New(l.w.Store).LeaseJobs(ctx, lifecycledb.LeaseJobsParams{
				Kind: kind, Provider: name, MaxJobs: int32(n - len(leased)), OwnSite: l.w.siteOf(name),
				Replica: l.w.Replica, LeaseS: l.w.Lease.Seconds(), Traced: l.w.traced,
			})
			if err != nil {
				return leased, err
			}
			leased = append(leased, jobs...)
		}
	}
	return leased, nil
}

// extend extends the leases of jobs.
func (w *Worker) extend(ctx context.Context, jobs []uuid.UUID, attempts []int32) (map[uuid.UUID]bool, error) {
	rows, err := lifecycledb.New(w.Store).ExtendLeases(ctx, lifecycledb.ExtendLeasesParams{Ids: jobs, Attempts: attempts, LeaseS: w.Lease.Seconds()})
	return lists.Keyed(rows, func(row lifecycledb.ExtendLeasesRow) (uuid.UUID, bool) { return row.ID, row.Extended }), err
}

// siteOf is this replica's site for a provider; empty if it is reached from everywhere, or can't be made, in which case
// its jobs are leased all the same and say why they can't be done.
func (w *Worker) siteOf(name string) string {
	p, err := w.Providers.Get(name)
	if err != nil {
		return ""
	}
	if s, ok := provider.As[provider.Sited](p); ok {
		return s.Site()
	}
	return ""
}

// nextDue is how long until the next job of this lane is due; poll if none is known.
func (l *lane) nextDue(ctx context.Context) time.Duration {
	kinds := lists.Of(l.kinds, func(kind database.JobKind) string { return string(kind) })
	in, err := lifecycledb.New(l.w.Store).NextDue(ctx, kinds)
	if err != nil || in <= 0 { // due, but locked or not for this site: no reason to spin
		return poll
	}
	return time.Duration(in*float64(time.Second)) + time.Millisecond
}

// do runs one job under its lease.
func (l *lane) do(ctx context.Context, job database.Job, asked time.Time) {
	start := l.w.Clock.Now("lifecycle", "job")
	ctx = l.w.held.Hold(ctx, job.ID, job.Attempt, asked)
	defer l.w.held.Drop(job.ID, job.Attempt)
	l.w.observeLeased(job)
	ctx, span := l.w.startTrace(ctx, job)
	defer span.End()
	j := &work{Job: job}
	l.w.settle(ctx, j, l.tasks[job.Kind](ctx, j))
	l.w.metrics.jobs.WithLabelValues(string(job.Kind)).Observe(l.w.Clock.Since(start, "lifecycle", "job").Seconds())
}

package forgetest

import (
	"cmp"
	"slices"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/lists"
)

// Work is a job to be queued.
type Work struct {
	Repository string // default: acme/shop
	Labels     []string
	For        time.Duration // how long it runs, unless End comes first
}

// Record is how a job went, for whoever judges.
type Record struct {
	ID, RunID   int64
	Attempt     int
	Repository  string
	Labels      []string
	State       forge.JobState
	Conclusion  string
	Runner      string // its name
	RunnerID    int64
	QueuedAt    time.Time
	StartedAt   time.Time
	CompletedAt time.Time
	HandedOut   int // how many runners it was given to: 1 is right
}

// Wait is how long it was queued; zero before it has started.
func (r Record) Wait() time.Duration {
	if r.StartedAt.IsZero() {
		return 0
	}
	return r.StartedAt.Sub(r.QueuedAt)
}

// Judge is what must not be.
type Judge struct {
	RemovedBusy []string // runners that were removed by the API while at a job: Gitea lets it happen
	KilledBusy  []string // runners whose connection ended while at a job
	RefusedBusy int      // removals that were refused: no fault, but the veto at work
}

type job struct {
	Record
	duration time.Duration
	end      chan struct{} // closed by End
}

// Queue adds jobs, and returns their ids.
func (f *Forge) Queue(work ...Work) []int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	ids := make([]int64, 0, len(work))
	for _, w := range work {
		j := &job{duration: w.For, end: make(chan struct{}), Record: Record{
			ID: f.id(), Attempt: 1, Repository: cmp.Or(w.Repository, "acme/shop"), Labels: w.Labels, State: forge.Queued,
			QueuedAt: f.clock.Now(),
		}}
		j.RunID = j.ID + 1_000_000
		f.jobs, f.byID[j.ID] = append(f.jobs, j), j
		ids = append(ids, j.ID)
		f.tell(j)
	}
	f.dispatch()
	return ids
}

// End lets a job end well, before its time is over: at once where a runner has it, else as soon as one does.
func (f *Forge) End(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j := f.byID[id]
	if j == nil {
		return
	}
	select {
	case <-j.end:
	default:
		close(j.end)
	}
}

// Cancel ends a job that no runner has.
func (f *Forge) Cancel(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if j := f.byID[id]; j != nil && j.State == forge.Queued {
		f.complete(j, "cancelled")
	}
}

// Again queues a completed job anew: the same id, the next attempt.
func (f *Forge) Again(id int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	j := f.byID[id]
	if j == nil || j.State != forge.Completed {
		return
	}
	next := &job{duration: j.duration, end: make(chan struct{}), Record: Record{
		ID: j.ID, RunID: j.RunID, Attempt: j.Attempt + 1, Repository: j.Repository, Labels: j.Labels, State: forge.Queued,
		QueuedAt: f.clock.Now(),
	}}
	f.jobs, f.byID[id] = append(f.jobs, next), next
	f.tell(next)
	f.dispatch()
}

// Records are those of all jobs so far.
func (f *Forge) Records() []Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return lists.Of(f.jobs, func(j *job) Record { return j.Record })
}

// Judge is what went wrong so far.
func (f *Forge) Judge() Judge {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Judge{
		RemovedBusy: slices.Clone(f.judge.RemovedBusy), KilledBusy: slices.Clone(f.judge.KilledBusy),
		RefusedBusy: f.judge.RefusedBusy,
	}
}

// dispatch gives queued jobs, the oldest first, each to some idle runner that fits. The forge is locked.
func (f *Forge) dispatch() {
	idle := make([]*runner, 0, len(f.runners))
	for _, r := range f.runners {
		if r.hand != nil && r.job == nil {
			idle = append(idle, r)
		}
	}
	slices.SortFunc(idle, func(a, b *runner) int { return cmp.Compare(a.id, b.id) })
	f.random.Shuffle(len(idle), func(a, b int) { idle[a], idle[b] = idle[b], idle[a] })
	for _, j := range f.jobs {
		if len(idle) == 0 {
			return
		}
		if j.State != forge.Queued {
			continue
		}
		at := slices.IndexFunc(idle, func(r *runner) bool { return r.takes(j) })
		if at < 0 {
			continue
		}
		f.give(j, idle[at])
		idle = slices.Delete(idle, at, at+1)
	}
}

// give hands a job to a runner. The forge is locked.
func (f *Forge) give(j *job, r *runner) {
	j.State, j.Runner, j.RunnerID, j.StartedAt = forge.InProgress, r.name, r.id, f.clock.Now()
	j.HandedOut++
	r.job = j
	r.hand <- j
	r.hand = nil
	f.tell(j)
}

// complete ends a job. The forge is locked.
func (f *Forge) complete(j *job, conclusion string) {
	j.State, j.Conclusion, j.CompletedAt = forge.Completed, conclusion, f.clock.Now()
	f.tell(j)
}

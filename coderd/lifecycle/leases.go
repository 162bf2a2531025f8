package lifecycle

import (
	"context"
	"errors"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/database"
)

// errLeaseLost is the cause of a job's context that ended because its lease did.
var errLeaseLost = errors.New("lease lost")

// leases are the jobs this replica holds. Each has a timer, on this process's clock, that ends its context a margin
// before its lease ends in the database. It counts from before the lease was asked for, so it is never late.
type leases struct {
	clock quartz.Clock
	store *database.Store
	lease time.Duration

	mu   sync.Mutex
	jobs map[uuid.UUID]*held
}

type held struct {
	attempt int32
	cancel  context.CancelCauseFunc
	until   time.Time
	end     *quartz.Timer
}

func newLeases(clock quartz.Clock, store *database.Store, lease time.Duration) *leases {
	return &leases{clock: clock, store: store, lease: lease, jobs: map[uuid.UUID]*held{}}
}

// margin is how long before the end of its lease a job must have let go of the provider.
func (s *leases) margin() time.Duration { return s.lease / 5 }

// left is what remains of a lease that was asked for at that time, less the margin.
func (s *leases) left(asked time.Time) time.Duration {
	return s.until(asked).Sub(s.clock.Now("lifecycle", "lease"))
}

func (s *leases) until(asked time.Time) time.Time { return asked.Add(s.lease - s.margin()) }

// expire ends the contexts of jobs whose time is over, as their timers do. In a process that was frozen, work may go on
// before its timers do.
func (s *leases) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now("lifecycle", "expire")
	for _, h := range s.jobs {
		if !now.Before(h.until) {
			h.cancel(errLeaseLost)
		}
	}
}

// hold returns a context for the job that ends with its lease less the margin. One that was asked for too long ago has
// ended already.
func (s *leases) hold(ctx context.Context, job database.Job, asked time.Time) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	left := s.left(asked)
	if left <= 0 {
		cancel(errLeaseLost)
		return ctx
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.jobs[job.ID]; ok { // this replica lost the job, and leased it anew
		old.end.Stop()
		old.cancel(errLeaseLost)
	}
	s.jobs[job.ID] = &held{attempt: job.Attempt, cancel: cancel, until: s.until(asked), end: s.clock.AfterFunc(left, func() {
		cancel(errLeaseLost)
	}, "lifecycle", "lease")}
	return ctx
}

// drop ends the job's context. Its lease, if the job is still open, simply runs out.
func (s *leases) drop(job database.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.jobs[job.ID]; ok && h.attempt == job.Attempt {
		h.end.Stop()
		h.cancel(nil)
		delete(s.jobs, job.ID)
	}
}

// beat extends all leases together until ctx ends.
func (s *leases) beat(ctx context.Context, log slog.Logger) {
	lease.Loop{
		Clock: s.clock, Log: log, What: "extend leases", Tags: []string{"lifecycle", "heartbeat"}, Every: s.lease / 5, Later: true,
	}.Run(ctx, s.extend)
}

func (s *leases) extend(ctx context.Context) error {
	s.mu.Lock()
	arg := database.ExtendLeasesParams{LeaseS: s.lease.Seconds()}
	for id, h := range s.jobs {
		arg.Ids = append(arg.Ids, id)
		arg.Attempts = append(arg.Attempts, h.attempt)
	}
	s.mu.Unlock()
	if len(arg.Ids) == 0 {
		return nil
	}
	// Asked within a heartbeat or not at all: an answer that comes late must not extend anything.
	ctx, cancel := context.WithTimeout(ctx, s.lease/5)
	defer cancel()
	asked := s.clock.Now("lifecycle", "lease")
	rows, err := s.store.ExtendLeases(ctx, arg)
	if err != nil {
		return err
	}
	kept := make(map[uuid.UUID]bool, len(rows)) // and whether extended
	for _, row := range rows {
		kept[row.ID] = row.Extended
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, id := range arg.Ids {
		h, ok := s.jobs[id]
		extended, mine := kept[id]
		switch {
		case !ok || h.attempt != arg.Attempts[i]: // ended meanwhile
		case !mine:
			h.cancel(errLeaseLost)
		case extended:
			// A timer that fired meanwhile has ended the context; setting it again changes nothing.
			h.until = s.until(asked)
			h.end.Reset(max(0, s.left(asked)), "lifecycle", "lease")
		}
	}
	return nil
}

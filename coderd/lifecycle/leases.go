package lifecycle

import (
	"context"
	"errors"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/database"
)

// errLeaseLost is the cause of a job's context that ended because its lease did.
var errLeaseLost = errors.New("lease lost")

// leases are the jobs this replica holds, each with the instant, on this process's clock, by which it must have let go.
// The clock starts before the lease is asked for, so it never ends later than the database's.
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
}

func newLeases(clock quartz.Clock, store *database.Store, lease time.Duration) *leases {
	return &leases{clock: clock, store: store, lease: lease, jobs: map[uuid.UUID]*held{}}
}

// margin is how long before the end of its lease a job must have let go of the provider.
func (s *leases) margin() time.Duration { return s.lease / 5 }

// hold returns a context for the job that ends with its lease less the margin.
func (s *leases) hold(ctx context.Context, job database.Job) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	// The lease was asked for a moment ago; a heartbeat interval's slack makes up for that moment.
	until := s.clock.Now("lifecycle", "lease").Add(s.lease - 2*s.margin())
	s.jobs[job.ID] = &held{attempt: job.Attempt, cancel: cancel, until: until}
	return ctx
}

// drop ends the job's context. Its lease, if the job is still open, simply runs out.
func (s *leases) drop(job database.Job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.jobs[job.ID]; ok && h.attempt == job.Attempt {
		h.cancel(nil)
		delete(s.jobs, job.ID)
	}
}

// beat extends all leases together until ctx ends, and ends the contexts of those that are lost or about to be.
func (s *leases) beat(ctx context.Context, log slog.Logger) {
	ticker := s.clock.NewTicker(s.lease/5, "lifecycle", "heartbeat")
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		s.expire()
		if err := s.extend(ctx); err != nil && ctx.Err() == nil {
			log.Warn(ctx, "extend leases", slog.Error(err))
		}
	}
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
	ids, err := s.store.ExtendLeases(ctx, arg)
	if err != nil {
		return err
	}
	kept := make(map[uuid.UUID]bool, len(ids))
	for _, id := range ids {
		kept[id] = true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, id := range arg.Ids {
		h, ok := s.jobs[id]
		switch {
		case !ok || h.attempt != arg.Attempts[i]: // ended meanwhile
		case kept[id]:
			h.until = asked.Add(s.lease - s.margin())
		default:
			h.cancel(errLeaseLost)
		}
	}
	return nil
}

// expire ends the contexts of jobs whose lease could not be extended in time.
func (s *leases) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now("lifecycle", "lease")
	for _, h := range s.jobs {
		if !now.Before(h.until) {
			h.cancel(errLeaseLost)
		}
	}
}

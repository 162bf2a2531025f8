package lease

import (
	"context"
	"errors"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
)

// ErrLost is the cause of a context that ended because its lease did.
var ErrLost = errors.New("lease lost")

// Held are the leases that this replica holds, each of one K. Each has a timer, on this process's clock, that ends its
// context a margin before it ends in the database. It counts from before the lease was asked for, so it is never late.
type Held[K comparable] struct {
	clock quartz.Clock
	lasts time.Duration

	mu sync.Mutex
	of map[K]*held
}

type held struct {
	attempt int32
	cancel  context.CancelCauseFunc
	until   time.Time
	end     *quartz.Timer
}

// NewHeld holds leases that last so long.
func NewHeld[K comparable](clock quartz.Clock, lasts time.Duration) *Held[K] {
	return &Held[K]{clock: clock, lasts: lasts, of: map[K]*held{}}
}

// Margin is how long before the end of its lease work must have ended.
func (s *Held[K]) Margin() time.Duration { return s.lasts / 5 }

// left is what remains of a lease that was asked for at that time, less the margin.
func (s *Held[K]) left(asked time.Time) time.Duration {
	return s.until(asked).Sub(s.clock.Now("lease", "left"))
}

func (s *Held[K]) until(asked time.Time) time.Time { return asked.Add(s.lasts - s.Margin()) }

// Expire ends the contexts of what is over, as the timers do. In a process that was frozen, work may go on before its timers
// do: it is called right before and after what must not be done without a lease.
func (s *Held[K]) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now("lease", "expire")
	for _, h := range s.of {
		if !now.Before(h.until) {
			h.cancel(ErrLost)
		}
	}
}

// Hold returns a context that ends with the lease less the margin. One that was asked for too long ago has ended already.
func (s *Held[K]) Hold(ctx context.Context, k K, attempt int32, asked time.Time) context.Context {
	ctx, cancel := context.WithCancelCause(ctx)
	left := s.left(asked)
	if left <= 0 {
		cancel(ErrLost)
		return ctx
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.of[k]; ok { // this replica lost it, and leased it anew
		old.end.Stop()
		old.cancel(ErrLost)
	}
	s.of[k] = &held{attempt: attempt, cancel: cancel, until: s.until(asked), end: s.clock.AfterFunc(left, func() {
		cancel(ErrLost)
	}, "lease", "end")}
	return ctx
}

// Drop ends the context. The lease, if what it is of is still open, simply runs out.
func (s *Held[K]) Drop(k K, attempt int32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.of[k]; ok && h.attempt == attempt {
		h.end.Stop()
		h.cancel(nil)
		delete(s.of, k)
	}
}

// Extend extends leases in the database. It returns those that this replica still has, and whether they were extended.
type Extend[K comparable] func(ctx context.Context, of []K, attempts []int32) (map[K]bool, error)

// Beat extends all leases together until ctx ends.
func (s *Held[K]) Beat(ctx context.Context, log slog.Logger, extend Extend[K]) {
	Loop{
		Clock: s.clock, Log: log, What: "extend leases", Tags: []string{"lease", "heartbeat"}, Every: s.Margin(), Later: true,
	}.Run(ctx, func(ctx context.Context) error { return s.extend(ctx, extend) })
}

func (s *Held[K]) extend(ctx context.Context, extend Extend[K]) error {
	var of []K
	var attempts []int32
	s.mu.Lock()
	for k, h := range s.of {
		of, attempts = append(of, k), append(attempts, h.attempt)
	}
	s.mu.Unlock()
	if len(of) == 0 {
		return nil
	}
	// Asked within a heartbeat or not at all: an answer that comes late must not extend anything.
	ctx, cancel := context.WithTimeout(ctx, s.Margin())
	defer cancel()
	asked := s.clock.Now("lease", "extend")
	kept, err := extend(ctx, of, attempts)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, k := range of {
		h, ok := s.of[k]
		extended, mine := kept[k]
		switch {
		case !ok || h.attempt != attempts[i]: // ended meanwhile
		case !mine:
			h.cancel(ErrLost)
		case extended:
			// A timer that fired meanwhile has ended the context; setting it again changes nothing.
			h.until = s.until(asked)
			h.end.Reset(max(0, s.left(asked)), "lease", "end")
		}
	}
	return nil
}

package lease

import (
	"context"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
)

// Loop is how something is done again and again, until its context ends.
type Loop struct {
	Clock quartz.Clock
	Log   slog.Logger
	What  string               // the log message of an error
	Tags  []string             // of the timer
	Every time.Duration        // from one time to the next, by a ticker; 0: there is a Pause
	Pause func() time.Duration // from the end of one time to the next
	Wake  <-chan struct{}      // ends a pause; nil: nothing does
	Later bool                 // not before the first pause
}

// Run does it until ctx ends. An error is logged, and what failed is done again as usual.
func (l Loop) Run(ctx context.Context, do func(ctx context.Context) error) {
	var due <-chan time.Time
	if l.Every > 0 {
		ticker := l.Clock.NewTicker(l.Every, l.Tags...)
		defer ticker.Stop()
		due = ticker.C
	}
	for waited := !l.Later; ; waited = true {
		if waited {
			if err := do(ctx); err != nil && ctx.Err() == nil {
				l.Log.Warn(ctx, l.What, slog.Error(err))
			}
		}
		if !l.await(ctx, due) {
			return
		}
	}
}

// await is false if ctx ended first.
func (l Loop) await(ctx context.Context, due <-chan time.Time) bool {
	if l.Every == 0 {
		timer := l.Clock.NewTimer(l.Pause(), l.Tags...)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return false
	case <-l.Wake:
		select { // what is done now does for both
		case <-due:
		default:
		}
	case <-due:
		select {
		case <-l.Wake:
		default:
		}
	}
	return ctx.Err() == nil
}

// Apart does work side by side, and that of one name once at a time: a provider that hangs holds up no other. The zero value
// is ready.
type Apart struct {
	mu      sync.Mutex
	busy    map[string]bool
	running sync.WaitGroup
}

// Go begins the work of that name, unless it is under way.
func (a *Apart) Go(name string, do func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy[name] {
		return
	}
	if a.busy == nil {
		a.busy = map[string]bool{}
	}
	a.busy[name] = true
	a.running.Go(func() {
		defer func() {
			a.mu.Lock()
			defer a.mu.Unlock()
			delete(a.busy, name)
		}()
		do()
	})
}

// Wait returns when all of it has ended.
func (a *Apart) Wait() { a.running.Wait() }

const (
	firstBackoff = time.Second // G5: doubling to
	mostBackoff  = 5 * time.Minute
)

// Backoff is the pause after the nth failure, from 0: 1 s doubling to 5 min, each between half and all of it. Jitter is from
// zero to below the given span.
func Backoff(failures int32, jitter func(time.Duration) time.Duration) time.Duration {
	d := min(firstBackoff<<min(failures, 16), mostBackoff)
	return d/2 + jitter(d/2)
}

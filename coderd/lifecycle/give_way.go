package lifecycle

import (
	"context"
	"sync"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// awaited are the starts that somebody waits for, which this replica is making right now, by provider.
type awaited struct {
	mu   sync.Mutex
	n    map[string]int
	over map[string]chan struct{} // closed when the last of them has ended
}

// begin notes one, which goes on until end is called, the first time.
func (a *awaited) begin(name string) (end func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n == nil {
		a.n, a.over = map[string]int{}, map[string]chan struct{}{}
	}
	if a.n[name]++; a.n[name] == 1 {
		a.over[name] = make(chan struct{})
	}
	return sync.OnceFunc(func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.n[name]--; a.n[name] == 0 {
			close(a.over[name])
		}
	})
}

// end is closed when none is under way; nil: there is none.
func (a *awaited) end(name string) <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n[name] == 0 {
		return nil
	}
	return a.over[name]
}

// giveWay has a create that nobody waits for wait until those workspaces are started that are claimed, where both take
// from one machine: the prebuild that takes the place of what was claimed out of standby would slow down that very claim.
// It waits no longer than the timeout, so that a pool fills however often it is claimed from.
func (w *Worker) giveWay(ctx context.Context, j *work) {
	if _, ok := provider.As[provider.Sited](j.provider); !ok || j.Priority <= workspaces.PriorityPerson {
		return
	}
	timer := w.Clock.NewTimer(w.Timeouts.GiveWay, "lifecycle", "give way")
	defer timer.Stop()
	for over := w.awaited.end(j.Provider); over != nil; over = w.awaited.end(j.Provider) {
		select {
		case <-over:
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// startAwaited notes that a start is made which somebody waits for, if that is so.
func (w *Worker) startAwaited(j *work) (end func()) {
	if j.Priority > workspaces.PriorityPerson {
		return func() {}
	}
	return w.awaited.begin(j.Provider)
}

package external

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Ready says whether the workspace runs. Whether what is inside is ready too is for its agent to say.
func (p *Provider) Ready(ctx context.Context, ref provider.Ref) (provider.Readiness, error) {
	i, err := p.recent.find(ctx, ref)
	if err != nil {
		return provider.Readiness{}, err
	}
	switch i.Status {
	case provider.StatusRunning:
		return provider.Readiness{Ready: true}, nil
	case provider.StatusError:
		return provider.Readiness{Failed: true, Detail: "the provider reports an error: " + i.Fault}, nil
	default:
		return provider.Readiness{Detail: "waiting for the provider to say that it runs; it says: " + string(i.Status)}, nil
	}
}

// recentFor is how long one listing answers questions for readiness.
const recentFor = 3 * time.Second

// recent is the last listing, shared by all who ask whether something is ready.
type recent struct {
	p      *Provider
	turn   chan struct{} // held while listing: the others wait for the answer rather than ask too
	at     time.Time
	list   []provider.Instance
	change atomic.Int64 // counts what this process changed; a listing from before is of no use
	seen   int64
}

func newRecent(p *Provider) *recent { return &recent{p: p, turn: make(chan struct{}, 1), seen: -1} }

// forget is called after every change.
func (r *recent) forget() { r.change.Add(1) }

// find looks ref up in the listing. What is not there yet is looked up by itself.
func (r *recent) find(ctx context.Context, ref provider.Ref) (provider.Instance, error) {
	list, err := r.current(ctx)
	if err != nil {
		return provider.Instance{}, err
	}
	for _, i := range list {
		if meant(ref, i) {
			return i, nil
		}
	}
	return r.p.find(ctx, ref)
}

func (r *recent) current(ctx context.Context) ([]provider.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case r.turn <- struct{}{}:
	}
	defer func() { <-r.turn }()
	change := r.change.Load()
	if change == r.seen && r.p.clock.Since(r.at, "external", "recent") < recentFor {
		return r.list, nil
	}
	list, err := r.p.list(ctx, r.p.installation)
	if err != nil {
		return nil, err
	}
	r.list, r.at, r.seen = list, r.p.clock.Now("external", "recent"), change
	return list, nil
}

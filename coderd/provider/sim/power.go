package sim

import (
	"context"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Stop stops a resource. It keeps what it is, and is not ready until it was started.
func (p *Provider) Stop(ctx context.Context, ref provider.Ref) error {
	return p.power(ctx, ref, "stop", true)
}

// Start starts a stopped resource.
func (p *Provider) Start(ctx context.Context, ref provider.Ref) error {
	return p.power(ctx, ref, "start", false)
}

func (p *Provider) power(ctx context.Context, ref provider.Ref, kind string, stopped bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := p.look(ref)
	if err != nil {
		return err
	}
	latency := r.Behavior.StartLatency
	switch {
	case r.Stopped == stopped:
		latency = Latency{}
	case stopped:
		latency = r.Behavior.StopLatency
	}
	return p.change(ctx, r, kind, latency, "done", func() error { return p.store.setStopped(r, stopped) })
}

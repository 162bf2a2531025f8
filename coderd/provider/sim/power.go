package sim

import (
	"context"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Stop stops a resource. It keeps what it is, and is not ready until it was started.
func (p *Provider) Stop(ctx context.Context, ref provider.Ref) error {
	if err := p.power(ctx, ref, "stop", true); err != nil {
		return xerrors.Errorf("stop workspace %s: %w", ref.Name, err)
	}
	return nil
}

// Start starts a stopped resource.
func (p *Provider) Start(ctx context.Context, ref provider.Ref) error {
	if err := p.power(ctx, ref, "start", false); err != nil {
		return xerrors.Errorf("start workspace %s: %w", ref.Name, err)
	}
	return nil
}

func (p *Provider) power(ctx context.Context, ref provider.Ref, kind string, stopped bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r, err := p.look(ref)
	if err != nil {
		return err
	}
	dice := p.dice(r.Name, kind)
	latency := r.Behavior.StartLatency
	if stopped {
		latency = r.Behavior.StopLatency
	}
	took := latency.pick(dice)
	before, after := hangs(dice, r.Behavior)
	lied := chance(dice, r.Behavior.Lie)
	if r.Stopped == stopped {
		took = 0
	}
	if err := p.delay(ctx, took, before); err != nil {
		return err
	}
	if err := p.store.setStopped(r, stopped); err != nil {
		return err
	}
	if err := p.delay(ctx, 0, after); err != nil {
		return err
	}
	if lied {
		return xerrors.New("simulated failure (a lie: it was done)")
	}
	return nil
}

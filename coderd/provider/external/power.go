package external

import (
	"context"

	"github.com/cloudbase/garm-provider-common/execution/common"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Stop stops a workspace, and does nothing to one that is stopped: some executables fail at that.
func (p *Provider) Stop(ctx context.Context, ref provider.Ref) error {
	return p.power(ctx, ref, common.StopInstanceCommand, provider.StatusStopped)
}

// Start starts a stopped workspace, and does nothing to one that runs.
func (p *Provider) Start(ctx context.Context, ref provider.Ref) error {
	return p.power(ctx, ref, common.StartInstanceCommand, provider.StatusRunning)
}

func (p *Provider) power(
	ctx context.Context, ref provider.Ref, command common.ExecutionCommand, already provider.Status,
) error {
	i, err := p.find(ctx, ref)
	if err != nil || i.Status == already {
		return err
	}
	defer p.recent.forget()
	_, err = p.call(ctx, request{command: command, instance: i.ProviderID})
	if exitedWith(err, exitNotFound) {
		return provider.ErrNotFound
	}
	return err
}

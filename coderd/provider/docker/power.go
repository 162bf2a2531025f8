package docker

import (
	"context"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Stop ends the container's processes, within the grace of its spec. Its files stay. One that is stopped stays so.
func (p *Provider) Stop(ctx context.Context, ref provider.Ref) error {
	f, err := p.find(ctx, ref)
	if err == nil {
		err = p.markStopped(ctx, f.ID)
	}
	if err == nil {
		_, err = p.client.ContainerStop(ctx, f.ID, client.ContainerStopOptions{})
		err = p.mapped(ctx, err)
	}
	return err
}

// markStopped writes down, in the container itself, that its run is ended on purpose: an engine does not tell a container
// that was stopped from one whose command ended. A later run has begun at another time.
func (p *Provider) markStopped(ctx context.Context, id string) error {
	is, err := p.client.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return p.mapped(ctx, err)
	}
	if is.Container.State == nil {
		return nil
	}
	return p.copyIn(ctx, id, []entry{
		{name: agentDir, directory: true, mode: 0o755}, text(entry{name: stoppedFile, mode: 0o644}, is.Container.State.StartedAt),
	})
}

// stopped says whether the last run of a container was ended on purpose.
func (p *Provider) stopped(ctx context.Context, id string, state *container.State) bool {
	marked, err := p.readFile(ctx, id, stoppedFile)
	return err == nil && state != nil && marked == state.StartedAt
}

// Start runs the container's command again; one that runs goes on. Published ports may be others than before.
func (p *Provider) Start(ctx context.Context, ref provider.Ref) error {
	f, err := p.find(ctx, ref)
	if err != nil {
		return err
	}
	return p.start(ctx, f.ID)
}

package docker

import (
	"context"
	"errors"
	"slices"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Delete stops the container, within the grace of its spec, and removes it with its anonymous volumes. It returns when
// the engine no longer has it.
func (p *Provider) Delete(ctx context.Context, ref provider.Ref) error {
	all, err := p.lookup(ctx, ref)
	for _, f := range all {
		if err == nil {
			err = p.remove(ctx, f)
		}
	}
	return err
}

func (p *Provider) remove(ctx context.Context, f found) error {
	if f.State == container.StateRunning {
		// That it cannot be stopped in order is no reason to keep it.
		if _, err := p.client.ContainerStop(ctx, f.ID, client.ContainerStopOptions{}); ctx.Err() != nil {
			return p.mapped(ctx, err)
		}
	}
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		_, err := p.client.ContainerRemove(ctx, f.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil:
			return nil
		case cerrdefs.IsNotFound(err):
			// One that is being created is listed before it can be removed: see finish.
			all, err := p.list(ctx, "label", labelWorkspace+"="+f.tags.WorkspaceID.String())
			if err != nil || !slices.ContainsFunc(all, func(other found) bool { return other.ID == f.ID }) {
				return err
			}
		case !cerrdefs.IsConflict(err): // somebody else is removing it
			return p.mapped(ctx, err)
		}
		if waited := p.pause(ctx, wait); waited != nil {
			return errors.Join(waited, err)
		}
	}
}

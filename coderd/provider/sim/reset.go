package sim

import (
	"cmp"
	"context"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Reset replaces a resource by a new one of the same name, and behaves as badly as a create does.
func (p *Provider) Reset(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	r, err := p.look(provider.Ref{Name: req.Name})
	switch {
	case err != nil:
	case r.Tags == req.Tags: // found, as by a create
	case r.Tags.Installation != req.Tags.Installation || r.Tags.WorkspaceID != req.Tags.WorkspaceID:
		err = provider.ErrConflict
	case r.Tags.Incarnation > req.Tags.Incarnation:
		err = provider.ErrSuperseded
	default:
		req.Machine = r.Machine
		err = p.store.remove(r) // of two at once one goes on, and the other finds nothing or what that one made
	}
	err = cmp.Or(err, ctx.Err())
	if err != nil {
		return provider.Instance{}, err
	}
	return p.Create(ctx, req)
}

package docker

import (
	"context"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Reset removes the container with its volumes, and makes a fresh one of the same name. One that is cut off between the
// two finds nothing when it is repeated.
func (p *Provider) Reset(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	var none provider.Instance
	s, err := p.specOf(req)
	if err != nil {
		return none, err
	}
	f, err := p.find(ctx, provider.Ref{Name: req.Name})
	switch {
	case err != nil:
		return none, err
	case f.tags == req.Tags: // reset before
		return p.finish(ctx, req, s, f)
	case f.tags.Installation != req.Tags.Installation || f.tags.WorkspaceID != req.Tags.WorkspaceID:
		return none, provider.ErrConflict
	case f.tags.Incarnation > req.Tags.Incarnation:
		return none, provider.ErrSuperseded
	}
	// What may fail comes before the old one goes.
	image, err := p.image(ctx, s)
	if err != nil {
		return none, err
	}
	if err := p.remove(ctx, f); err != nil {
		return none, err
	}
	return p.make(ctx, req, s, image, f.ID)
}

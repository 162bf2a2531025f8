package local

import (
	"context"
	"errors"
	"io/fs"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Reset ends all processes of a workspace, and puts a new directory in the place of its old one: nothing is left of who
// used it before. All under one lock of the name, so that nobody comes between; one that is cut off between the two finds
// nothing when it is repeated.
func (p *Provider) Reset(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	var none provider.Instance
	if err := checkRequest(req); err != nil {
		return none, err
	}
	if err := p.Isolated(); err != nil {
		return none, provider.Permanent(err) // what is left of who used it before could read what the next one does
	}
	lock, err := p.lockName(ctx, req.Name)
	if err != nil {
		return none, err
	}
	defer lock.Close()
	d := p.dir(req.Name)
	w, err := load(d)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return none, provider.ErrNotFound
	case errors.Is(err, errUntagged):
		return none, provider.ErrConflict
	case err != nil:
		return none, err
	case w.Tags == req.Tags: // reset before
		return p.begin(ctx, d, w, lock)
	case w.Tags.Installation != req.Tags.Installation || w.Tags.WorkspaceID != req.Tags.WorkspaceID:
		return none, provider.ErrConflict
	case w.Tags.Incarnation > req.Tags.Incarnation:
		return none, provider.ErrSuperseded
	}
	if err := p.end(ctx, d, w); err != nil {
		return none, err
	}
	if w, err = p.prepare(d, req); err != nil {
		return none, err
	}
	return p.begin(ctx, d, w, lock)
}

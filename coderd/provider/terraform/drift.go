package terraform

import (
	"context"
	"io"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// mostDrift is how many addresses of a workspace are worth a look.
const mostDrift = 100

// DriftEvery implements provider.Drifter.
func (p *Provider) DriftEvery() time.Duration { return p.LookEvery }

// Drift implements provider.Drifter: by a plan from a copy of the state. The run has no token, so that it cannot write the workspace's.
func (p *Provider) Drift(ctx context.Context, ref provider.Ref) (found []string, err error) {
	is, err := p.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	switch _, whole, err := is.workspace(); {
	case err != nil:
		return nil, err
	case !whole:
		return nil, xerrors.New("its apply has not come to its end")
	}
	state, err := p.States.State(ctx, is.WorkspaceID)
	if err != nil {
		return nil, xerrors.Errorf("read its state: %w", err)
	}
	module, err := p.made(ctx, is.WorkspaceID)
	if err != nil {
		return nil, err
	}
	err = p.within(ctx, module, Backend{Copy: state}, io.Discard, func(run *Run) (err error) {
		found, err = run.Drift(ctx, io.Discard)
		return err
	})
	return found[:min(len(found), mostDrift)], err
}

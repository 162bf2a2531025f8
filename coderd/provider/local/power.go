package local

import (
	"context"
	"errors"
	"os"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Stop ends all processes of a workspace and keeps its directory and its port. One that was cut off is found half done by
// the next: a workspace without processes that does not say that it was stopped.
func (p *Provider) Stop(ctx context.Context, ref provider.Ref) error {
	return p.locked(ctx, ref, func(ctx context.Context, d dir, w workspace, _ *os.File) error {
		v, err := observe(d)
		if err != nil || v.Phase == phaseStopped {
			return err
		}
		if v, err = p.endProcesses(ctx, d, w); err != nil {
			return err
		}
		v.Phase, v.Detail, v.Main = phaseStopped, "stopped", process{}
		if err := v.write(d); err != nil {
			return xerrors.Errorf("record stop: %w", err)
		}
		return nil
	})
}

// Start runs the command of a workspace again that was stopped, or has ended by itself. Its setup is not run again if it
// had succeeded.
func (p *Provider) Start(ctx context.Context, ref provider.Ref) error {
	return p.locked(ctx, ref, func(ctx context.Context, d dir, w workspace, lock *os.File) error {
		v, err := observe(d)
		if err != nil || v.alive {
			return err
		}
		if err := p.killStragglers(ctx, w.Tags.WorkspaceID, v.state); err != nil {
			return err
		}
		before := w.UID
		if err := p.reserve(d, &w); err != nil {
			return err
		}
		if w.UID != before {
			if err := w.handFiles(d, before); err != nil {
				return err
			}
		}
		return p.startSupervisor(ctx, d, w, lock)
	})
}

// locked calls do with the workspace that ref means, under the lock of its name; provider.ErrNotFound if there is none.
func (p *Provider) locked(
	ctx context.Context, ref provider.Ref, do func(ctx context.Context, d dir, w workspace, lock *os.File) error,
) error {
	_, w, _, err := p.find(ctx, ref)
	if err != nil {
		return err
	}
	name := w.Name
	lock, err := p.lockName(ctx, name)
	if err != nil {
		return err
	}
	defer lock.Close()
	d, w, _, err := p.find(ctx, ref)
	if errors.Is(err, provider.ErrNotFound) {
		_ = os.Remove(p.own("locks", name)) // deleted while this waited, which has made the file of the lock again
	}
	if err != nil {
		return err
	}
	return do(ctx, d, w, lock)
}

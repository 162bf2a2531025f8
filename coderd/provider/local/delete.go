package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Delete ends all processes of a workspace and removes its directory. The directory leaves its place in one step, as
// whole as it came, so that there is no half-deleted workspace; a Delete that was cut off later is completed by the
// next one of that name.
func (p *Provider) Delete(ctx context.Context, ref provider.Ref) error {
	name, err := refName(ref)
	if err != nil {
		return err
	}
	lock, err := p.lockName(ctx, name)
	if err != nil {
		return err
	}
	defer lock.Close()
	d := p.dir(name)
	w, err := load(d)
	switch {
	case errors.Is(err, errUntagged), err == nil && !meant(ref, w):
		return nil // something is there, but not the workspace that is meant
	case errors.Is(err, fs.ErrNotExist):
		if ref.WorkspaceID != uuid.Nil { // should somebody have removed the directory by hand
			err = p.killStragglers(ctx, ref.WorkspaceID, state{})
		} else {
			err = nil
		}
		if err == nil {
			err = p.releaseAll(name)
		}
	case err == nil:
		err = p.end(ctx, d, w)
	}
	if err != nil {
		return err
	}
	if err := removeTree(p.own("aside", name)); err != nil {
		return xerrors.Errorf("remove directory: %w", err)
	}
	// Nobody has anything to do with this name any more: those that wait for the lock find it unlinked and look anew.
	return os.Remove(p.own("locks", name))
}

// end ends the processes, gives the port back and takes the directory from its place.
func (p *Provider) end(ctx context.Context, d dir, w workspace) error {
	if _, err := p.endProcesses(ctx, d, w); err != nil {
		return err
	}
	if err := p.release(w); err != nil {
		return err
	}
	aside := p.own("aside", w.Name)
	if err := removeTree(aside); err != nil {
		return xerrors.Errorf("remove leftovers: %w", err)
	}
	if err := os.Rename(string(d), aside); err != nil {
		return xerrors.Errorf("take directory from its place: %w", err)
	}
	return nil
}

// endProcesses ends all processes of a workspace, and returns what their supervisor recorded last.
func (p *Provider) endProcesses(ctx context.Context, d dir, w workspace) (view, error) {
	if err := p.stopSupervisor(ctx, d, w.spec.stopGrace); err != nil {
		return view{}, err
	}
	v, err := observe(d)
	if err != nil {
		return view{}, err
	}
	return v, p.killStragglers(ctx, w.Tags.WorkspaceID, v.state)
}

// stopSupervisor asks the supervisor to end its processes and itself, and waits for that; one that does not, in the
// grace it gives and a little more, is killed with them.
func (p *Provider) stopSupervisor(ctx context.Context, d dir, grace time.Duration) error {
	v, err := observe(d)
	if err != nil || !v.alive {
		return err
	}
	v.Supervisor.send(syscall.SIGTERM)
	late := p.clock.Now("local", "stop").Add(grace + 2*time.Second)
	pause := newPause(p.clock, 10*time.Millisecond)
	for none := 0; ; {
		alive, err := isLocked(d.lockFile())
		if err != nil || !alive {
			return err
		}
		if p.clock.Now("local", "stop").After(late) {
			if none, err = v.kill(none); err != nil {
				return xerrors.Errorf("kill supervisor: %w", err)
			}
		}
		if err := pause.wait(ctx); err != nil {
			return xerrors.Errorf("stop supervisor: %w", err)
		}
	}
}

// kill kills a supervisor that does not end, where nothing descends from it: what it leaves behind, nobody finds again. Else
// it kills that first. It returns how many looks in a row have found nothing: one alone may miss a process whose parent ended
// meanwhile. In a namespace of its own the kernel sees to that.
func (st state) kill(none int) (int, error) {
	if !st.Isolated && !st.Supervisor.ended() {
		left, err := descendants(st.Supervisor.PID)
		if err != nil {
			return 0, err
		}
		for _, p := range left {
			p.send(syscall.SIGKILL)
		}
		if none++; len(left) > 0 {
			none = 0
		}
		if none < 3 {
			return none, nil
		}
	}
	st.Supervisor.send(syscall.SIGKILL)
	return none, nil
}

// removeTree removes a directory with all below it, through no symbolic link. Directories that their owner may not
// write, such as those of a module cache, are made writable first where that is what stands in the way.
func removeTree(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(path, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			_ = os.Chmod(path, 0o700) //nolint:gosec // a directory needs the x bit
		}
		return nil
	})
	return os.RemoveAll(path)
}

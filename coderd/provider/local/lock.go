package local

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/coder/quartz"
	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/wait"
)

// tryLock takes the lock of an open file, if nobody has it. It is held until the last descriptor of this opening is
// closed, in whatever process; never unlock it explicitly, as that would take it from those it was handed to.
func tryLock(f *os.File) (bool, error) {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK})
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return false, nil
	}
	return err == nil, err
}

// isLocked says whether somebody has the lock of a file. It takes nothing, so it disturbs nobody.
func isLocked(path string) (bool, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	q := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &q); err != nil {
		return false, err
	}
	return q.Type != unix.F_UNLCK, nil
}

// lockName takes the lock of a workspace's name, waiting for it until ctx ends. Closing the file gives it back.
func (p *Provider) lockName(ctx context.Context, name string) (*os.File, error) {
	pause := newPause(p.clock, 20*time.Millisecond)
	for {
		f, err := p.tryLockName(name)
		if err != nil {
			return nil, xerrors.Errorf("lock name: %w", err)
		}
		if f != nil {
			// Whoever was cancelled while waiting must not go on to make what a Delete before it has just removed.
			if err := ctx.Err(); err != nil {
				_ = f.Close()
				return nil, xerrors.Errorf("lock name: %w", err)
			}
			return f, nil
		}
		if err := pause.wait(ctx); err != nil {
			return nil, xerrors.Errorf("lock name: %w", err)
		}
	}
}

// tryLockName is lockName without waiting: nil if somebody else has the lock.
func (p *Provider) tryLockName(name string) (*os.File, error) {
	path := p.own("locks", name)
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		ok, err := tryLock(f)
		if err != nil || !ok {
			_ = f.Close()
			return nil, err
		}
		same, err := isFile(f, path)
		if err == nil && same {
			return f, nil
		}
		_ = f.Close()
		if err != nil {
			return nil, err
		}
		// That was a file that a Delete has just unlinked; another is at its place, or can be.
	}
}

func isFile(f *os.File, path string) (bool, error) {
	a, err := f.Stat()
	if err != nil {
		return false, err
	}
	b, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(a, b), err
}

// pause waits between two looks at something, a little longer each time.
type pause struct {
	clock     quartz.Clock
	next, max time.Duration
}

func newPause(clock quartz.Clock, longest time.Duration) *pause {
	return &pause{clock: clock, next: time.Millisecond, max: longest}
}

func (p *pause) wait(ctx context.Context) error {
	d := p.next
	p.next = min(2*p.next, p.max)
	return wait.For(ctx, p.clock, d, "local", "pause")
}

package local

import (
	"cmp"
	"io"
	"os"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// openTerminal makes a terminal, which is all three files of the command.
func (s *streams) openTerminal(req provider.ExecRequest) error {
	blocking, theirs, err := pty.Open()
	if err != nil {
		return err
	}
	s.theirs = [3]*os.File{theirs, theirs, theirs}
	if s.terminal, err = interruptible(blocking); err != nil {
		return err
	}
	to := cmp.Or(req.Stdout, io.Discard)
	s.input, s.outputs = s.terminal, []output{{s.terminal, to}}
	return nil
}

// interruptible takes a file over, such that closing it ends a read that waits. The pty library leaves its files in
// blocking mode, where it does not.
func interruptible(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, xerrors.Errorf("open terminal: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		_ = unix.Close(fd)
		return nil, xerrors.Errorf("open terminal: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// resize gives a terminal a size.
func resize(terminal *os.File, size provider.WindowSize) {
	if raw, err := terminal.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
		})
	}
}

package local

import (
	"context"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// startOnTerminal starts a command in a session of its own, on a terminal of its own. The function it returns waits for
// the end of both.
func (p *Provider) startOnTerminal(
	ctx context.Context, cmd *exec.Cmd, req provider.ExecRequest,
) (func() error, error) {
	blocking, err := pty.StartWithAttrs(cmd, nil,
		&syscall.SysProcAttr{Setsid: true, Setctty: true, Pdeathsig: syscall.SIGKILL})
	if err != nil {
		return nil, err
	}
	terminal, err := interruptible(blocking)
	if err != nil {
		_ = cmd.Cancel()
		_ = cmd.Wait()
		return nil, err
	}
	if req.Stdin != nil {
		go func() { _, _ = io.Copy(terminal, req.Stdin) }()
	}
	ended := make(chan struct{})
	go follow(terminal, req.Resize, ended)
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		out := req.Stdout
		if out == nil {
			out = io.Discard
		}
		_, _ = io.Copy(out, terminal) // ends with EIO when no process has the terminal any more
	}()
	return func() error {
		err := cmd.Wait()
		close(ended)
		delay := p.clock.NewTimer(outputDelay, "local", "exec")
		defer delay.Stop()
		select {
		case <-shown:
		case <-delay.C:
		case <-ctx.Done():
		}
		_ = terminal.Close()
		<-shown
		return err
	}, nil
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

// follow gives the terminal the sizes that come, until ended.
func follow(terminal *os.File, sizes <-chan provider.WindowSize, ended <-chan struct{}) {
	for {
		select {
		case <-ended:
			return
		case size, ok := <-sizes:
			if !ok {
				return
			}
			if raw, err := terminal.SyscallConn(); err == nil {
				_ = raw.Control(func(fd uintptr) {
					_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: size.Rows, Col: size.Cols})
				})
			}
		}
	}
}

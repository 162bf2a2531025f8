package external

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/coder/quartz"
	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

const (
	// termGrace is between SIGTERM and SIGKILL, and pipeGrace how long output is still waited for after that. Together
	// they are how long a call outlasts its context.
	termGrace = time.Second
	pipeGrace = 500 * time.Millisecond

	maxStdout  = 16 << 20 // bytes; a listing of some 40,000 instances
	keptStderr = 16 << 10 // bytes
)

// process is one run of a program.
type process struct {
	path  string
	dir   string
	env   []string // all of it: nothing of the server's own environment is added
	stdin []byte
}

// output is what came of a process that ended by itself.
type output struct {
	stdout []byte
	stderr string
	status syscall.WaitStatus
}

var errTooMuch = xerrors.Errorf("it wrote more than %d MiB to its standard output", maxStdout>>20)

// run runs the process to its end, or until ctx ends. When it returns, no process of its group is left; one that went
// into a group of its own may be, and can't hold the call up.
func (p process) run(ctx context.Context, clock quartz.Clock) (output, error) {
	if err := ctx.Err(); err != nil {
		return output{}, err
	}
	stdout, stderr := &capped{limit: maxStdout}, &provider.Tail{Limit: keptStderr}
	cmd := exec.Command(p.path) //nolint:noctx // the operator's program; its group is ended below
	cmd.Dir, cmd.Env = p.dir, p.env
	cmd.Stdin, cmd.Stderr = bytes.NewReader(p.stdin), stderr
	cmd.WaitDelay = pipeGrace
	answer, end, err := os.Pipe()
	if err != nil {
		return output{}, xerrors.Errorf("make a pipe: %w", err)
	}
	defer answer.Close()
	cmd.Stdout = end
	// A server that is killed takes it along: nothing is made under a lease that somebody else has by then. Pdeathsig is
	// about the thread that starts it, which must therefore live as long.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err = cmd.Start()
	_ = end.Close()
	if err != nil {
		return output{}, xerrors.Errorf("start: %w", err)
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(stdout, answer)
		if stdout.overflow {
			_ = answer.Close() // its next write fails, or it would wait for a reader until its time is over
		}
	}()

	group := -cmd.Process.Pid
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		awaitExit(cmd.Process.Pid)
	}()
	var ended error
	select {
	case <-exited:
	case <-ctx.Done():
		ended = ctx.Err()
		_ = syscall.Kill(group, syscall.SIGTERM)
		timer := clock.NewTimer(termGrace, "external", "terminate")
		select {
		case <-exited:
		case <-timer.C:
		}
		timer.Stop()
	}
	// Its first process is not reaped yet, so the group is still its own.
	_ = syscall.Kill(group, syscall.SIGKILL)
	err = cmd.Wait()
	timer := clock.NewTimer(pipeGrace, "external", "pipe")
	select {
	case <-read:
	case <-timer.C: // somebody outside the group holds the pipe, or this machine is too busy to read
		_ = answer.SetReadDeadline(time.Unix(1, 0))
		<-read
		drain(answer, stdout)
	}
	timer.Stop()

	var exit *exec.ExitError
	switch {
	case ended != nil:
		return output{}, ended
	case stdout.overflow:
		return output{}, errTooMuch
	case err != nil && !errors.As(err, &exit) && !errors.Is(err, exec.ErrWaitDelay):
		return output{}, xerrors.Errorf("run: %w", err)
	}
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return output{stdout: stdout.buf.Bytes(), stderr: stderr.String(), status: status}, nil
}

// drain reads what is in a pipe, and waits for no more. What a process wrote before its end is in there, so that an answer
// is whole even if nobody found the time to read it; only what a process that it left behind writes later is lost.
func drain(pipe *os.File, to io.Writer) {
	raw, err := pipe.SyscallConn()
	if err != nil || pipe.SetReadDeadline(time.Time{}) != nil {
		return
	}
	buf := make([]byte, 64<<10)
	_ = raw.Read(func(fd uintptr) bool {
		for {
			n, err := unix.Read(int(fd), buf)
			if errors.Is(err, unix.EINTR) {
				continue
			}
			if err != nil || n <= 0 {
				return true
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return true
			}
		}
	})
}

// awaitExit waits for the end of a child and leaves it to be reaped.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// capped keeps what is written up to a limit, beyond which it fails.
type capped struct {
	limit    int
	buf      bytes.Buffer
	overflow bool
}

func (c *capped) Write(p []byte) (int, error) {
	if c.buf.Len()+len(p) > c.limit {
		c.overflow = true
		return 0, errTooMuch
	}
	return c.buf.Write(p)
}

package local

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// outputDelay is how long the output of a command is waited for after its end: something it left in the background may
// keep it open.
const outputDelay = time.Second

// Exec runs a command in the workspace's home, with its environment. The command ends with ctx, with this process, and
// with the workspace. A Stdin that is still being read when the command ends is left to its owner to close.
func (p *Provider) Exec(ctx context.Context, ref provider.Ref, req provider.ExecRequest) (int, error) {
	if len(req.Command) == 0 {
		return 0, xerrors.Errorf("exec in workspace %s: no command is given", ref.Name)
	}
	// Pdeathsig follows the thread that starts the command, so that thread must last as long as the command.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd, wait, err := p.startExec(ctx, ref, req)
	if err != nil {
		return 0, xerrors.Errorf("exec in workspace %s: %w", ref.Name, err)
	}
	err = wait()
	if ctx.Err() != nil {
		return 0, xerrors.Errorf("exec in workspace %s: %w", ref.Name, ctx.Err())
	}
	var exited *exec.ExitError
	if err != nil && !errors.As(err, &exited) && !errors.Is(err, exec.ErrWaitDelay) {
		return 0, xerrors.Errorf("exec in workspace %s: %w", ref.Name, err)
	}
	ws, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	_, code := exitDetail(ws)
	return code, nil
}

// startExec starts the command while it holds the lock of the name: a Delete comes before it, and there is no
// workspace, or after it, and finds its processes.
func (p *Provider) startExec(
	ctx context.Context, ref provider.Ref, req provider.ExecRequest,
) (*exec.Cmd, func() error, error) {
	d, w, _, err := p.find(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	lock, err := p.lockName(ctx, w.Name)
	if err != nil {
		return nil, nil, err
	}
	defer lock.Close()
	_, _, v, err := p.find(ctx, ref)
	if errors.Is(err, provider.ErrNotFound) {
		_ = os.Remove(p.own("locks", w.Name)) // deleted while this waited, which has made the file of the lock again
	}
	if err != nil {
		return nil, nil, err
	}
	if !v.alive || v.final() {
		return nil, nil, xerrors.New("it is not running")
	}
	env := w.environment(d)
	maps.Copy(env, req.Env)
	env[envMark] = w.mark()
	path, err := program(req.Command[0], env, d.home())
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, path, req.Command[1:]...)
	cmd.Args[0] = req.Command[0]
	cmd.Dir = d.home()
	cmd.Env = environ(env)
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = outputDelay
	if req.TTY {
		wait, err := p.startOnTerminal(ctx, cmd, req)
		return cmd, wait, err
	}
	cmd.Stdout, cmd.Stderr = req.Stdout, req.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if req.Stdin == nil {
		return cmd, cmd.Wait, cmd.Start()
	}
	// Not cmd.Stdin, whose end Wait would wait for: a client keeps it open for as long as it likes.
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, xerrors.Errorf("open stdin: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	go func() {
		_, _ = io.Copy(stdin, req.Stdin)
		_ = stdin.Close()
	}()
	return cmd, cmd.Wait, nil
}

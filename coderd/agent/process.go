package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coder/quartz"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

const (
	// outputDelay is how long the output of a script is waited for after its end: what it left in the background may
	// keep it open.
	outputDelay = time.Second
	tailSize    = 1024 // bytes of output that are told of a script that failed
)

// process is something that the agent runs, the leader of a process group of its own.
type process struct {
	cmd    *exec.Cmd
	spared func() bool // stops the end that ctx would bring

	mu    sync.Mutex
	kill  *quartz.Timer // set when it was told to end
	ended bool
}

// start starts a command that ends with ctx: SIGTERM to its group, SIGKILL after the grace. tail, if not nil, also gets
// its output.
func (a *agent) start(ctx context.Context, command, env []string, tail io.Writer) (*process, error) {
	p := &process{cmd: exec.Command(command[0], command[1:]...)} //nolint:noctx // ended by hand, with its group
	p.cmd.Env = append(env[:len(env):len(env)], claimFiles(a.Dir)...)
	p.cmd.Stdout, p.cmd.Stderr = a.Stdout, a.Stderr
	if tail != nil {
		p.cmd.Stdout, p.cmd.Stderr = io.MultiWriter(a.Stdout, tail), io.MultiWriter(a.Stderr, tail)
	}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.WaitDelay = outputDelay
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.spared = context.AfterFunc(ctx, func() { p.end(a.Clock, a.Grace) })
	return p, nil
}

// end asks the group to end, and makes it after the grace.
func (p *process) end(clock quartz.Clock, grace time.Duration) {
	p.signal(syscall.SIGTERM)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kill = clock.AfterFunc(grace, func() { p.signal(syscall.SIGKILL) }, "agent", "kill")
}

// signal is for the group as long as it is known to be ours.
func (p *process) signal(sig syscall.Signal) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.ended {
		_ = syscall.Kill(-p.cmd.Process.Pid, sig)
	}
}

// wait returns the exit status, 128 + n after signal n, and puts it into words. What is left of the group of a process
// that was told to end is killed.
func (p *process) wait() (status int, how string) {
	err := p.cmd.Wait()
	p.spared()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.kill != nil {
		p.kill.Stop()
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // the group's number is free only when the group is empty
	}
	p.ended = true
	if p.cmd.ProcessState == nil {
		return 1, fmt.Sprintf("could not be waited for: %v", err)
	}
	if ws, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), "was ended by signal " + strings.ToLower(ws.Signal().String())
	}
	code := p.cmd.ProcessState.ExitCode()
	return code, fmt.Sprintf("ended with exit status %d", code)
}

// script runs one to its end. The error says how it failed, with the end of its output.
func (a *agent) script(ctx context.Context, name string, command, env []string) error {
	tail := &provider.Tail{Limit: tailSize}
	p, err := a.start(ctx, command, env, tail)
	if err != nil {
		return xerrors.Errorf("%s could not be started: %w", name, err)
	}
	status, how := p.wait()
	if status == 0 {
		return nil
	}
	message := name + " " + how
	output := strings.TrimSpace(strings.ReplaceAll(tail.String(), "\x00", "")) // which a report cannot carry
	if output != "" {
		message += "; its last output:\n" + output
	}
	return errors.New(clip(message))
}

package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// releaseTimeout bounds how long an interrupted claim --exec tries to give its workspace back.
const releaseTimeout = 10 * time.Second

// execIn runs a command in a workspace with this process's streams and returns its status. If both ends are terminals
// the command gets one too, and keys such as Ctrl-C go to it.
func (a *app) execIn(ctx context.Context, client *sdk.Client, ref string, command []string) (status int, err error) {
	req := sdk.ExecRequest{
		ExecStart: sdk.ExecStart{Command: command},
		Stdin:     a.stdin,
		Stdout:    a.stdout,
		Stderr:    a.stderr,
	}
	in, inIsTerminal := terminal(a.stdin)
	if out, outIsTerminal := terminal(a.stdout); inIsTerminal && outIsTerminal {
		restore, err := a.takeTerminal(&req, in, out)
		if err != nil {
			return 0, err
		}
		defer restore()
	}
	return client.Exec(ctx, ref, req)
}

// takeTerminal makes req one with a terminal, and this terminal hand on every key. restore gives it back.
func (a *app) takeTerminal(req *sdk.ExecRequest, in, out int) (restore func(), err error) {
	req.TTY = true
	if name := a.env("TERM"); name != "" {
		req.Env = map[string]string{"TERM": name}
	}
	size := windowSize(out)
	req.Rows, req.Cols = size.Rows, size.Cols
	before, err := term.MakeRaw(in)
	if err != nil {
		return nil, xerrors.Errorf("prepare terminal: %w", err)
	}
	resize := make(chan sdk.WindowSize)
	done := make(chan struct{})
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	go func() {
		for range changed {
			select {
			case resize <- windowSize(out):
			case <-done:
			}
		}
	}()
	req.Resize = resize
	return func() {
		signal.Stop(changed)
		close(changed)
		close(done)
		_ = term.Restore(in, before)
	}, nil
}

func windowSize(fd int) sdk.WindowSize {
	cols, rows, err := term.GetSize(fd)
	if err != nil {
		return sdk.WindowSize{Rows: 24, Cols: 80}
	}
	return sdk.WindowSize{Rows: uint16(rows), Cols: uint16(cols)}
}

// execClaimed runs a command in a workspace just claimed and, unless it is to be kept, releases it whatever happened.
func (a *app) execClaimed(
	ctx context.Context, client *sdk.Client, claim sdk.Claim, command []string, keep bool,
) error {
	status, err := a.execIn(ctx, client, claim.Name, command)
	if keep {
		a.hint("Kept workspace %s. Give it back with: prewarm workspace release %s", claim.Name, claim.Name)
		return endWith(status, err)
	}
	if releaseErr := giveBack(ctx, client, claim.Name); releaseErr != nil {
		a.complain(xerrors.Errorf("release workspace %s (try %q): %w",
			claim.Name, "prewarm workspace release "+claim.Name, releaseErr).Error())
		if err == nil && status == 0 {
			status = statusError
		}
	}
	return endWith(status, err)
}

// giveBack releases a workspace, also after an interrupt.
func giveBack(ctx context.Context, client *sdk.Client, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	_, err := client.ReleaseWorkspace(ctx, name)
	return err
}

// endWith makes this process end as the command did.
func endWith(status int, err error) error {
	if err != nil || status == 0 {
		return err
	}
	if status < 0 || status > 255 {
		status = statusError
	}
	return &exitError{status: status}
}

package docker

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// Exec runs a command in the container, in its working directory, as its user and with its environment.
func (p *Provider) Exec(ctx context.Context, ref provider.Ref, req provider.ExecRequest) (int, error) {
	if len(req.Command) == 0 {
		return 0, xerrors.New("no command is given")
	}
	f, err := p.find(ctx, ref)
	if err != nil {
		return 0, err
	}
	if f.State != container.StateRunning {
		return 0, xerrors.New("it is not running")
	}
	return p.exec(ctx, f.ID, req)
}

// exec runs a command to its end, or until ctx ends, which kills it.
func (p *Provider) exec(ctx context.Context, id string, req provider.ExecRequest) (int, error) {
	mark := uuid.NewString()
	made, err := p.client.ExecCreate(ctx, id, client.ExecCreateOptions{
		TTY: req.TTY, AttachStdin: req.Stdin != nil, AttachStdout: true, AttachStderr: true,
		Env: append(provider.Environ(req.Env), provider.ExecMark+"="+mark), Cmd: req.Command,
	})
	if err != nil {
		return 0, p.mapped(ctx, err)
	}
	attached, err := p.client.ExecAttach(ctx, made.ID, client.ExecAttachOptions{TTY: req.TTY})
	if err != nil {
		return 0, p.mapped(ctx, err)
	}
	defer attached.Close()
	ended := make(chan struct{})
	defer close(ended)
	if req.TTY {
		go req.Resizes(ended, func(size provider.WindowSize) { p.resize(ctx, made.ID, size) })
	}
	if req.Stdin != nil {
		go func() {
			_, _ = io.Copy(attached.Conn, req.Stdin) // what is still being read at the end is its owner's to close
			_ = attached.CloseWrite()
		}()
	}
	shown := make(chan error, 1)
	go func() { shown <- show(attached.Reader, req) }()
	select {
	case err = <-shown:
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		_ = attached.Conn.Close()
		p.kill(ctx, id, mark)
		return 0, ctx.Err()
	}
	if err != nil {
		return 0, xerrors.Errorf("read output: %w", err)
	}
	return p.exitCode(ctx, made.ID)
}

// show copies the output until it ends. A terminal has one stream; else there are two in one.
func show(from io.Reader, req provider.ExecRequest) error {
	stdout, stderr := cmp.Or(req.Stdout, io.Discard), cmp.Or(req.Stderr, io.Discard)
	var err error
	if req.TTY {
		_, err = io.Copy(stdout, from)
	} else {
		_, err = stdcopy.StdCopy(stdout, stderr, from)
	}
	return err
}

// exitCode is that of a command whose output has ended. The engine may learn of its end a little later.
func (p *Provider) exitCode(ctx context.Context, exec string) (int, error) {
	for wait := 5 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		is, err := p.client.ExecInspect(ctx, exec, client.ExecInspectOptions{})
		if err != nil {
			return 0, p.mapped(ctx, err)
		}
		if !is.Running {
			return is.ExitCode, nil
		}
		if err := p.pause(ctx, wait); err != nil {
			return 0, err
		}
	}
}

// resize gives the terminal a size. It is refused while the command is only about to run.
func (p *Provider) resize(ctx context.Context, exec string, size provider.WindowSize) {
	for range 20 {
		_, err := p.client.ExecResize(ctx, exec, client.ExecResizeOptions{Height: uint(size.Rows), Width: uint(size.Cols)})
		if err == nil || p.pause(ctx, 50*time.Millisecond) != nil {
			return
		}
	}
}

// kill ends all processes of a command. An engine offers no way to, and its image need not have a tool for it: so the
// prewarm binary is copied in, where it is not yet there, and run beside the command, as the same user: in a
// container root may not look into the processes of others either.
func (p *Provider) kill(ctx context.Context, id, mark string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), provider.KillTimeout)
	defer cancel()
	if err := p.killMarked(ctx, id, mark); err != nil && !errors.Is(err, provider.ErrNotFound) {
		p.logger.Warn(ctx, "kill a command that was given up", slog.F("container", id), slog.Error(err))
	}
}

func (p *Provider) killMarked(ctx context.Context, id, mark string) error {
	_, err := p.client.ContainerStatPath(ctx, id, client.ContainerStatPathOptions{Path: agentBinary})
	if err != nil {
		if err := p.copyProgram(ctx, id, []entry{{name: agentDir, directory: true, mode: 0o755}}); err != nil {
			return err
		}
	}
	made, err := p.client.ExecCreate(ctx, id, client.ExecCreateOptions{
		Cmd: []string{agentBinary, KillCommand, mark}, WorkingDir: "/",
	})
	if err != nil {
		return p.mapped(ctx, err)
	}
	if _, err := p.client.ExecStart(ctx, made.ID, client.ExecStartOptions{Detach: true}); err != nil {
		return p.mapped(ctx, err)
	}
	status, err := p.exitCode(ctx, made.ID)
	if err == nil && status != 0 {
		err = xerrors.Errorf("exit status %d", status)
	}
	return err
}

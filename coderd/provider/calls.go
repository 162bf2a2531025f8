package provider

import (
	"context"
	"io"
	"time"

	"github.com/coder/quartz"

	"github.com/prewarm-dev/prewarm/coderd/wait"
)

const (
	// KillTimeout bounds the killing of a command that was given up.
	KillTimeout = 20 * time.Second
	// ExecMark is the variable that marks the processes of one command, by which they are found where it is given up.
	ExecMark = "PREWARM_EXEC"
	// createGrace is how long the answer to a create is waited for after the call's context has ended.
	createGrace = 10 * time.Second
)

// Lasting makes a create that its receiver carries out whether it is waited for or not, and whose result had better be known: do's
// context ends a little later than ctx. What was made then is found by its name, and the error is that of ctx.
func Lasting(ctx context.Context, clock quartz.Clock, do func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		_ = wait.For(lasting, clock, createGrace, "provider", "lasting")
		cancel()
	})()
	err := do(lasting)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Written is read as write writes it. Closing it cancels.
func Written(cancel context.CancelFunc, write func(w io.Writer) error) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		defer cancel()
		_ = w.CloseWithError(write(w))
	}()
	return written{r, cancel}
}

type written struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (w written) Close() error {
	w.cancel()
	return w.PipeReader.Close()
}

package embedded

import (
	"context"
	"math/rand/v2"
	"time"

	"cdr.dev/slog"

	"github.com/prewarm-dev/prewarm/coderd/wait"
)

const (
	firstRestartDelay = 100 * time.Millisecond
	lastRestartDelay  = 10 * time.Second
)

// supervise starts PostgreSQL again each time it ends, until ctx does.
func (c *Cluster) supervise(ctx context.Context) {
	defer close(c.stopped)
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.process.exited:
		}
		err := exitError(c.process.err)
		c.opts.Logger.Error(ctx, "PostgreSQL ended, starting it again", slog.Error(err))
		select {
		case c.exits <- err:
		default:
		}
		if c.process = c.restart(ctx); c.process == nil {
			return
		}
		c.opts.Logger.Info(ctx, "PostgreSQL is back")
	}
}

// restart tries until it succeeds. It returns nil when ctx ends.
func (c *Cluster) restart(ctx context.Context) *process {
	for delay := firstRestartDelay; ; delay = min(2*delay, lastRestartDelay) {
		child, err := c.launch(ctx)
		if err == nil {
			return child
		}
		if ctx.Err() != nil {
			return nil
		}
		c.opts.Logger.Error(ctx, "starting PostgreSQL failed", slog.Error(err), slog.F("next_try_in", delay))
		if wait.For(ctx, c.opts.Clock, delay/2+rand.N(delay/2), "embedded", "restart") != nil {
			return nil
		}
	}
}

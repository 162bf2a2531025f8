// Package wait waits for time to pass.
package wait

import (
	"context"
	"time"

	"github.com/coder/quartz"
)

// For waits for so long, or until ctx ends, which is its error then. Tags are for tests that move the clock.
func For(ctx context.Context, clock quartz.Clock, d time.Duration, tags ...string) error {
	timer := clock.NewTimer(d, tags...)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

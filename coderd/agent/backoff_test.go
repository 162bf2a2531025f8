package agent_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// An agent whose server does not answer as it should asks again after a pause that doubles from 250 ms with each failure, up
// to 10 s.
func TestBackoff(t *testing.T) {
	t.Parallel()
	s := newServer(t, sdk.AgentConfig{})
	s.token = "another"
	o := options(t, s)
	clock := quartz.NewMock(t)
	o.Clock = clock
	questions := []*quartz.Trap{clock.Trap().NewTimer("agent", "metadata"), clock.Trap().NewTimer("agent", "report")}
	stop, _ := start(t, o)
	defer func() { // what waits at a trap ends with it
		for _, q := range questions {
			q.Close()
		}
		stop()
	}()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for failures := range 12 {
		all := min(250*time.Millisecond<<failures, 10*time.Second)
		var pauses []time.Duration
		for _, q := range questions {
			call := q.MustWait(ctx)
			pauses = append(pauses, call.Duration)
			call.MustRelease(ctx)
		}
		slices.Sort(pauses)
		require.GreaterOrEqual(t, pauses[0], all/2, "after %d failures", failures)
		require.Less(t, pauses[1], all, "after %d failures", failures)
		clock.Advance(pauses[0]).MustWait(ctx)
		clock.Advance(pauses[1] - pauses[0]).MustWait(ctx)
	}
}

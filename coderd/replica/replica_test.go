package replica_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/replica"
)

// A replica runs the loops that are named, or all; each ends with it.
func TestLoops(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	listed := func(name string) (n int) {
		require.NoError(t, w.Store.Pool.QueryRow(t.Context(), "SELECT count(*) FROM replicas WHERE name = $1", name).Scan(&n))
		return n
	}
	some := w.Start(t, coderdtest.Config{Name: "some", Tick: 100 * time.Millisecond})
	all := w.Start(t, coderdtest.Config{Name: "all", Tick: 100 * time.Millisecond, Parts: func(p *replica.Parts) { p.Loops = nil }})
	all.Hints.Nudge(w.Pool(t, "a", 2, 1)...)
	coderdtest.Eventually(t, "a warm pool", func() bool { return w.Warm(t, "a") == 2 })
	coderdtest.Eventually(t, "a heartbeat", func() bool { return listed("all") == 1 })
	all.Stop()
	some.Stop()
	require.Zero(t, listed("some"))
}

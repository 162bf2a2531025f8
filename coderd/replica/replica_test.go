package replica_test

import (
	"testing"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// All loops of a replica run, and end with it.
func TestLoops(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	r := w.Start(t, coderdtest.Config{Name: "all", NoPass: true, NoWork: true})
	r.Run(r.Loops()...)
	r.Hints.Nudge(w.Pool(t, "a", 2, 1)...)
	coderdtest.Eventually(t, "a warm pool", func() bool { return w.Warm(t, "a") == 2 })
	coderdtest.Eventually(t, "a heartbeat", func() bool {
		var n int
		err := w.Store.Pool.QueryRow(t.Context(), "SELECT count(*) FROM replicas WHERE name = 'all'").Scan(&n)
		return err == nil && n == 1
	})
	r.Stop()
}

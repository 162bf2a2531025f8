package claim_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// A claim out of standby that is asked for again is answered with how far the start of its own workspace is.
func TestStandby_askedAgain(t *testing.T) {
	t.Parallel()
	w := coderdtest.NewWorld(t, sim.Behavior{})
	w.Apply(t, `
templates:
  - name: a
    provider: sim
    spec: {}
    presets: [{name: default, prebuilds: {instances: 2, standby: stopped}}]
`)
	worker := w.Start(t, coderdtest.Config{Tick: 200 * time.Millisecond})
	coderdtest.Eventually(t, "two are stopped", func() bool {
		return w.Count(t, "a", "standby") == 2 && count(t, w, "jobs WHERE state IN ('pending', 'running')") == 0
	})
	worker.Stop()
	r := w.Start(t, coderdtest.Config{NoWork: true, NoPass: true}) // nothing is started
	ask := func(key string) claim.Result {
		t.Helper()
		res, err := w.Claim(t, r, "a", claim.Request{Key: key})
		require.NoError(t, err)
		require.NotNil(t, res.Workspace, res.Reason)
		require.True(t, res.Standby)
		return res
	}
	failed := ask("failed")
	require.True(t, ask("failed").Starting)
	exec(t, w, "UPDATE jobs SET state = 'failed', finished_at = now() WHERE state = 'pending'")
	exec(t, w, "UPDATE workspaces SET fault = 'no host has room for it' WHERE id = $1", failed.Workspace.ID)
	ask("starting")

	again := ask("failed")
	require.Equal(t, failed.Workspace.ID, again.Workspace.ID)
	require.False(t, again.Starting)
	require.Equal(t, "no host has room for it", again.Fault)
	again = ask("starting")
	require.True(t, again.Starting)
	require.Empty(t, again.Fault)
}

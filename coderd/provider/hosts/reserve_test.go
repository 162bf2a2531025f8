package hosts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
)

// S2, S5: a machine that is away is passed over, and so is one on which a workspace failed; what is not listed is not counted
// on, and a machine that comes back is taken in.
func TestReserve_lowestIDOfThoseThatAnswer(t *testing.T) {
	t.Parallel()
	w := newFleetWorld(t, 3, nil) // a patient one: who is passed over is only who is away
	w.fleet.Machines[0].Kill(t)
	w.list(t)
	templates := w.Apply(t, `
templates:
  - name: bare
    provider: fleet
    spec: {reset: "true"}
    presets: [{name: default, prebuilds: {instances: 1}}]
`)
	r := w.Start(t, coderdtest.Config{Tick: time.Second})
	r.Reconciler.Nudge(templates...)
	w.eventually(t, "a workspace", func() bool { return w.Count(t, "bare", "ready") == 1 })
	machine := ""
	require.NoError(t, w.Store.Pool.QueryRow(t.Context(),
		"SELECT provider_id FROM workspaces WHERE state = 'ready'").Scan(&machine))
	require.Equal(t, "m01", machine)

	// As many as are desired cannot be had: the rest is held back, and no workspace is made for it.
	r.Reconciler.Nudge(w.Apply(t, `
templates:
  - name: bare
    provider: fleet
    spec: {reset: "true"}
    presets: [{name: default, prebuilds: {instances: 3}}]
`)...)
	w.eventually(t, "the other machine", func() bool { return w.Count(t, "bare", "ready") == 2 })
	w.eventually(t, "the ledger to say so", func() bool {
		var why string
		require.NoError(t, w.Store.Pool.QueryRow(t.Context(), "SELECT ledger::text FROM preset_status").Scan(&why))
		return strings.Contains(why, "unused machines of provider fleet") && w.Count(t, "bare", "provisioning") == 0
	})
	w.fleet.Machines[0].Start(t)
	w.list(t)
	r.Reconciler.Nudge(templates...)
	w.eventually(t, "the machine that came back", func() bool { return w.Count(t, "bare", "ready") == 3 })
}

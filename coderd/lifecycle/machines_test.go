package lifecycle_test

import (
	"testing"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// S5: a machine that another installation took since it was listed is left to it, and the same attempt takes the next one.
// That is no failure of the provider's.
func TestCreate_machineIsTaken(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cloud, err := sim.New(sim.Options{Machines: 2, Clock: quartz.NewReal()})
	require.NoError(t, err)
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(provider.Provider) provider.Provider { return cloud.Offered() })
	templates := w.Apply(t, `
providers: [{name: sim, kind: sim}]
templates:
  - name: a
    provider: sim
    spec: {}
    presets: [{name: default, prebuilds: {instances: 1}}]
`)
	passes := w.Start(t, coderdtest.Config{NoWork: true})
	listed, err := passes.Machines.List(ctx, "sim", 0)
	require.NoError(t, err)
	require.True(t, listed)
	_, err = cloud.Create(ctx, provider.CreateRequest{
		Name: "another", Machine: sim.MachineID(1), Tags: provider.Tags{Installation: uuid.New(), WorkspaceID: uuid.New()},
	})
	require.NoError(t, err)
	passes.Reconciler.Nudge(templates...)
	w.Start(t, coderdtest.Config{NoPass: true})
	coderdtest.Eventually(t, "it is made", func() bool { return w.Warm(t, "a") == 1 })

	var attempt, failures int
	require.NoError(t, w.Store.Pool.QueryRow(ctx, "SELECT attempt, failures FROM jobs WHERE kind = 'create'").Scan(&attempt, &failures))
	require.Equal(t, 1, attempt)
	require.Zero(t, failures)
	var machines string
	require.NoError(t, w.Store.Pool.QueryRow(ctx, `SELECT string_agg(concat_ws(' ', machine, state, workspace_id IS NOT NULL, failures,
		error LIKE '%the machine is not free'), ', ' ORDER BY machine) FROM provider_machines`).Scan(&machines))
	require.Equal(t, "m0001 possibly_used f 0 t, m0002 unused t 0 f", machines)
}

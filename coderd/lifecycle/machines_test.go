package lifecycle_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/lifecycledb"
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

// reserving is a cloud that has machines, and does as the test tells it.
type reserving struct {
	*told
	provider.Reserver
}

// A machine on which a workspace failed, at its create or after it, is unused again once the workspace is deleted, and is not
// the next to be tried. A workspace that did not fail clears that.
func TestMachine_afterAFailure(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	cloud, err := sim.New(sim.Options{Machines: 2, Clock: quartz.NewReal()})
	require.NoError(t, err)
	fleet := sim.Fleet{Provider: cloud}
	p := &told{Provider: fleet}
	w := coderdtest.NewWorldWith(t, sim.Behavior{}, func(provider.Provider) provider.Provider { return reserving{p, fleet} })
	var creates, probes atomic.Int32
	p.create = func(context.Context, provider.CreateRequest) error {
		if creates.Add(1) == 1 {
			return xerrors.New("no answer")
		}
		return nil
	}
	p.ready = func() (provider.Readiness, bool) {
		return provider.Readiness{Failed: true, Detail: "setup exited with 1"}, probes.Add(1) == 1
	}
	pool := func(instances string) []uuid.UUID {
		return w.Apply(t, `
providers: [{name: sim, kind: sim}]
templates:
  - name: a
    provider: sim
    spec: {}
    presets: [{name: default, prebuilds: {instances: `+instances+`}}]
`)
	}
	templates := pool("1")
	r := w.Start(t, coderdtest.Config{})
	listed, err := r.Machines.List(ctx, "sim", 0)
	require.NoError(t, err)
	require.True(t, listed)
	r.Reconciler.Nudge(templates...)
	machines := func() (all string) {
		require.NoError(t, w.Store.Pool.QueryRow(ctx, `SELECT string_agg(concat_ws(' ', machine, state, failures,
			retry_at IS NOT NULL), ', ' ORDER BY machine) FROM provider_machines`).Scan(&all))
		return all
	}
	coderdtest.Eventually(t, "it fails on one, is made on the other, and fails there", func() bool {
		return w.Count(t, "a", "deleted") == 1
	})
	require.Equal(t, "m0001 unused 1 t, m0002 unused 1 t", machines())

	_, err = w.Store.Pool.Exec(ctx, "UPDATE provider_machines SET retry_at = prewarm_now() WHERE machine = 'm0001'")
	require.NoError(t, err)
	coderdtest.Eventually(t, "another is made", func() bool {
		hasten(t, w)
		r.Reconciler.Nudge(templates...)
		r.Worker.Wake()
		return w.Warm(t, "a") == 1
	})
	r.Reconciler.Nudge(pool("0")...)
	coderdtest.Eventually(t, "it is deleted", func() bool { return w.Count(t, "a", "deleted") == 2 })
	require.Equal(t, "m0001 unused 0 f, m0002 unused 1 t", machines())
}

// S5: of workspaces that are made at the same time, each reserves a machine of its own, and finds that one when it asks again.
// An attempt that is over, or has lost its job, reserves none.
func TestReserveMachine(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1, Each: 4})
	_, err := store.Pool.Exec(ctx, `INSERT INTO provider_machines (provider, machine, state, changed_at)
		SELECT 'sim', 'm000' || n, 'unused', now() FROM generate_series(1, 4) n`)
	require.NoError(t, err)
	jobs := []uuid.UUID{uuid.New(), uuid.New(), uuid.New(), uuid.New()} // the last is done
	_, err = store.Pool.Exec(ctx, `INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, attempt, state, due_at, created_at, finished_at)
		SELECT ($1::uuid[])[n], id, incarnation, 'create', 'sim', 1, (CASE n WHEN 4 THEN 'done' ELSE 'running' END)::job_state,
			now(), now(), CASE n WHEN 4 THEN now() END
		FROM (SELECT id, incarnation, row_number() OVER (ORDER BY id) AS n FROM workspaces) w`, jobs)
	require.NoError(t, err)
	for _, c := range []struct {
		job     int
		attempt int32
		want    string // empty: none
	}{{0, 1, "m0001"}, {1, 1, "m0002"}, {0, 1, "m0001"}, {1, 1, "m0002"}, {2, 0, ""}, {2, 2, ""}, {3, 1, ""}, {2, 1, "m0003"}} {
		got, err := lifecycledb.New(store).ReserveMachine(ctx, lifecycledb.ReserveMachineParams{
			Provider: "sim", JobID: jobs[c.job], Attempt: c.attempt,
		})
		if c.want == "" {
			require.ErrorIs(t, err, pgx.ErrNoRows, "%+v", c)
			continue
		}
		require.NoError(t, err, "%+v", c)
		require.Equal(t, c.want, got, "%+v", c)
	}
}

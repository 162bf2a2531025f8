package reconcile

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/reconciledb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// The fence (DESIGN section 3, step 3): a pass whose snapshot is older than the commit of another pass, and which gets
// the lock after it, must not plan on what it sees. The interleaving is made here step by step, so that nothing is left
// to chance: the snapshot is taken, another replica makes a whole pass, and then the pass goes on.
//
// Where both write the same status row, that would tell them apart as well. So the pass before saw the same deficit as
// these two, and neither has a status to write.
func TestFence_snapshotBeforeTheLock(t *testing.T) {
	const desired = 5
	ctx := context.Background()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1})
	_, err := store.Pool.Exec(ctx, "UPDATE presets SET instances = $1", desired)
	require.NoError(t, err)
	one, other := testReconciler(store, "one"), testReconciler(store, "other")
	pass(ctx, t, other)
	loseOne(ctx, t, other)
	pass(ctx, t, other)
	loseOne(ctx, t, other)

	runs := 0
	err = store.InTx(ctx, database.TxOptions{Label: "pass", Isolation: pgx.RepeatableRead},
		func(ctx context.Context, tx pgx.Tx) error {
			runs++
			if _, err := viewsdb.New(tx).LastPass(ctx); err != nil { // from here on it sees this instant
				return err
			}
			if runs == 1 {
				pass(context.Background(), t, other)
			}
			_, err := one.passInTx(ctx, tx, nil)
			return err
		})
	require.NoError(t, err)
	var n int
	require.NoError(t, store.Pool.QueryRow(ctx, "SELECT count(*) FROM workspaces WHERE state = 'provisioning'").Scan(&n))
	require.Equal(t, desired, n, "I3: more prebuilds than desired: two passes created for the same deficit")
	require.Equal(t, 2, runs, "the pass ran again on a fresh snapshot")
}

func testReconciler(store *database.Store, replica string) *Reconciler {
	return New(Options{
		Store: store, Writer: workspaces.New(store, uuid.New, replica), Clock: quartz.NewReal(), Log: slog.Make(),
		Registerer: prometheus.NewRegistry(), Replica: replica, Tick: time.Hour, Random: rand.Reader, NewID: uuid.New, Hints: hints.Local(hints.Ears{}),
	})
}

func pass(ctx context.Context, t *testing.T, r *Reconciler) {
	t.Helper()
	_, err := r.pass(ctx, nil)
	require.NoError(t, err)
}

func loseOne(ctx context.Context, t *testing.T, r *Reconciler) {
	t.Helper()
	var id uuid.UUID
	require.NoError(t, r.Store.Pool.QueryRow(ctx, "SELECT id FROM workspaces WHERE state = 'provisioning' LIMIT 1").Scan(&id))
	_, err := r.Writer.Delete(ctx, workspaces.Actor{UserID: workspaces.Prewarm, Reason: "test"}, id, false)
	require.NoError(t, err)
}

// A replica that is frozen in a pass stops the pool for seconds: another ends the pass, counts it, and makes its own. A pass that
// is another one by then is given its own time.
func TestWatchHolder(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1})
	r := testReconciler(store, "waits")
	clock := quartz.NewMock(t).WithLogger(quartz.NoOpLogger)
	r.Clock = clock
	frozen, err := store.Pool.Acquire(ctx)
	require.NoError(t, err)
	defer frozen.Release()
	hold := func() pgx.Tx {
		tx, err := frozen.Begin(ctx)
		require.NoError(t, err)
		locked, err := reconciledb.New(tx).TryPassLock(ctx)
		require.NoError(t, err)
		require.True(t, locked)
		return tx
	}
	wait := func(seconds int) float64 {
		for range seconds {
			require.ErrorIs(t, r.run(ctx, "tick", nil), errBusy)
			clock.Advance(time.Second)
		}
		var ended dto.Metric
		require.NoError(t, r.metrics.frozen.Write(&ended))
		return ended.GetCounter().GetValue()
	}
	first := hold()
	require.Zero(t, wait(10))
	require.NoError(t, first.Commit(ctx))
	second := hold() // of the same backend
	require.Zero(t, wait(10))
	_, err = second.Exec(ctx, "SELECT")
	require.NoError(t, err)
	require.InDelta(t, 1, wait(1), 0)
	require.Eventually(t, func() bool { return r.run(ctx, "tick", nil) == nil }, time.Minute, 10*time.Millisecond)
	_, err = second.Exec(ctx, "SELECT")
	require.Error(t, err)
}

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
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/hints"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
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

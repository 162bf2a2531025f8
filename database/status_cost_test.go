package database_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/eventsdb"
)

// What screens ask after each second is what passes wrote since, and costs by how much that was, not by how many presets
// there are; so does where they begin.
func TestCost_statusSinceReadsWhatIsNew(t *testing.T) {
	t.Parallel()
	const pools, fresh = 10_000, 3
	store := openCost(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: pools})
	for _, statement := range []string{
		`INSERT INTO preset_status (preset_id, counts, ledger, digest, pass_seq, changed_at)
			SELECT id, '{}', '{}', '', row_number() OVER (ORDER BY md5(id::text)), now() FROM presets ORDER BY id`,
		"UPDATE reconcile_fence SET seq = 20000", // there were passes that changed nothing
		"ANALYZE preset_status",
	} {
		_, err := store.Pool.Exec(context.Background(), statement)
		require.NoError(t, err)
	}
	rows := rowsRead(t, store, "preset_status", func(ctx context.Context, db database.DBTX) error {
		found, err := eventsdb.New(db).StatusSince(ctx, pools-fresh)
		require.Len(t, found, fresh)
		require.EqualValues(t, pools, found[fresh-1].PassSeq, "in the order of the passes")
		return err
	})
	require.LessOrEqual(t, rows, int64(fresh+4), "the planner looks at the ends of the index, too")
	rows = rowsRead(t, store, "preset_status", func(ctx context.Context, db database.DBTX) error {
		marks, err := eventsdb.New(db).EventMarks(ctx)
		require.EqualValues(t, pools, marks.Status)
		return err
	})
	require.LessOrEqual(t, rows, int64(4))
}

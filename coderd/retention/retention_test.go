package retention_test

import (
	"context"
	"testing"

	"cdr.dev/slog/sloggers/slogtest"
	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/retention"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// Proofs of pools that are no preset's any more go by age, however many there are; those of a preset's pool stay for good.
func TestPurge_poolProofs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 3})
	exec := func(sql string) {
		_, err := store.Pool.Exec(ctx, sql)
		require.NoError(t, err)
	}
	exec("UPDATE presets SET deleted_at = now() WHERE id = md5('p3')::uuid")
	exec(`INSERT INTO pool_proofs (preset_id, pool_key, ready_at)
		SELECT id, pool_key, now() - interval '90 days' FROM presets`) // one of them of a preset that was deleted
	exec(`INSERT INTO pool_proofs (preset_id, pool_key, ready_at)
		SELECT md5('p1')::uuid, gen_random_uuid(), now() - interval '31 days' FROM generate_series(1, 2100)`) // more than two batches
	exec(`INSERT INTO pool_proofs (preset_id, pool_key, ready_at)
		VALUES (md5('p1')::uuid, md5('last week')::uuid, now() - interval '7 days')`)

	keeper := &retention.Keeper{Store: store, Clock: quartz.NewMock(t), Log: slogtest.Make(t, nil)}
	require.NoError(t, keeper.Purge(ctx))
	var left []string
	rows, err := store.Pool.Query(ctx, `SELECT CASE preset_id WHEN md5('p1')::uuid THEN 'p1' WHEN md5('p2')::uuid THEN 'p2'
		ELSE 'p3' END || CASE pool_key WHEN md5('last week')::uuid THEN ' before' ELSE '' END FROM pool_proofs ORDER BY 1`)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var one string
		require.NoError(t, rows.Scan(&one))
		left = append(left, one)
	}
	require.NoError(t, rows.Err())
	require.Equal(t, []string{"p1", "p1 before", "p2"}, left)
}

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

// The newest five versions of a Terraform state stay for as long as their workspace has a row, a deleted one's too. So does its output.
func TestPurge_terraformStates(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1, Each: 2, Deleted: 1})
	exec := func(sql string) {
		_, err := store.Pool.Exec(ctx, sql)
		require.NoError(t, err)
	}
	exec(`INSERT INTO terraform_states (workspace_id, version, incarnation, lineage, serial, sealed, sealed_by, size, md5, created_at)
		SELECT w.id, n, 1, 'l', n, 'x', 'k', 1, decode(md5(''), 'hex'), now()
		FROM (SELECT id FROM workspaces UNION ALL SELECT md5('gone')::uuid) w, generate_series(1, 1200) n`) // more than one batch
	exec(`DELETE FROM terraform_states WHERE version > 3 AND workspace_id = (SELECT min(id::text)::uuid FROM workspaces)`)
	exec(`INSERT INTO terraform_runs (workspace_id, incarnation, job_id, attempt, token_hash, created_at)
		SELECT w.id, 1, md5('job')::uuid, 1, sha256(''), now() FROM (SELECT id FROM workspaces UNION ALL SELECT md5('gone')::uuid) w`)
	exec(`INSERT INTO terraform_output (workspace_id, seq, chunk, created_at) SELECT workspace_id, n, 'said', now() FROM terraform_runs, generate_series(1, 2) n`)

	keeper := &retention.Keeper{Store: store, Clock: quartz.NewMock(t), Log: slogtest.Make(t, nil)}
	require.NoError(t, keeper.Purge(ctx))
	var left string
	require.NoError(t, store.Pool.QueryRow(ctx, `SELECT string_agg(kept, ' ' ORDER BY kept) FROM (
		SELECT min(version) || '-' || max(version) AS kept FROM terraform_states GROUP BY workspace_id) k`).Scan(&left))
	require.Equal(t, "1-3 1196-1200 1196-1200", left)
	require.NoError(t, store.Pool.QueryRow(ctx, "SELECT count(*)::text FROM terraform_runs").Scan(&left))
	require.Equal(t, "3", left)
	require.NoError(t, store.Pool.QueryRow(ctx, "SELECT count(*)::text FROM terraform_output").Scan(&left))
	require.Equal(t, "6", left)
}

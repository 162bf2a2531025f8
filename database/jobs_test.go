package database_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/retentiondb"
)

// No foreign key holds jobs to their workspaces, but those of a workspace that is deleted go with it, and only those.
func TestJobs_goWithTheirWorkspace(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1, Each: 3, Deleted: 5})
	_, err := store.Pool.Exec(ctx, "UPDATE workspaces SET deleted_at = now() WHERE state = 'deleted'")
	require.NoError(t, err)
	_, err = store.Pool.Exec(ctx, `INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, state, due_at, created_at,
		finished_at)
		SELECT gen_random_uuid(), id, 1, 'create', 'sim', 'done', now(), now(), now() FROM workspaces`)
	require.NoError(t, err)
	n, err := retentiondb.New(store).PurgeWorkspaces(ctx, retentiondb.PurgeWorkspacesParams{KeepS: -3600, Batch: 4})
	require.NoError(t, err)
	require.EqualValues(t, 4, n)
	var jobs, workspaces int
	require.NoError(t, store.Pool.QueryRow(ctx, `SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM workspaces)`).
		Scan(&jobs, &workspaces))
	require.Equal(t, 4, jobs)
	require.Equal(t, 4, workspaces)
}

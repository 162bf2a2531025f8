package database_test

import (
	"context"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/reconciledb"
)

// What a pass reads of runners is those that nobody has claimed, and the jobs that wait for them: neither the 200,000 jobs
// and 100,000 runners beside, nor anything at all for presets that are not of runners.
func TestCost_runnersBesideCostNothing(t *testing.T) {
	t.Parallel()
	const pools, each, claimed, queued = 100, 10, 100_000, 30
	store := openCost(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: pools, Each: each, Claimed: claimed})
	entity := dbtest.Forge(t, store, "acme", "github", "organization")
	runners, ofRunners := poolIDs(t, store, 1)
	other, _ := poolIDs(t, store, 2)
	_, plain := poolIDs(t, store, 3)
	for _, statement := range []struct {
		sql  string
		args []any
	}{
		{"UPDATE presets SET forge_entity_id = $1, runner_labels = '{linux}', runner_maximum = 2000 WHERE id IN ($2, $3)", []any{entity, runners, other}},
		{`INSERT INTO forge_jobs (id, organization_id, forge_url, job_id, attempt, entity_id, repository, labels, state, preset_id,
				queued_at, seen_at, updated_at)
			SELECT gen_random_uuid(), gen_random_uuid(), 'https://forge.invalid', n, 1, $1, 'acme/tool', '{linux}',
				(CASE WHEN n <= 20000 THEN 'queued' ELSE 'completed' END)::forge_job_state,
				CASE WHEN n <= 30 OR n > 100000 THEN $2::uuid ELSE $3::uuid END, now(), now(), now()
			FROM generate_series(1, 200000) n`, []any{entity, runners, other}},
		{`INSERT INTO forge_runners (workspace_id, incarnation, preset_id, entity_id, name, status, status_at, status_since, created_at)
			SELECT id, 1, preset_id, $1, name, 'active', now(), now(), now() FROM workspaces WHERE state IN ('ready', 'claimed')`, []any{entity}},
		{"ANALYZE", nil},
	} {
		_, err := store.Pool.Exec(context.Background(), statement.sql, statement.args...)
		require.NoError(t, err)
	}
	presetsOf := func(template uuid.UUID, waiting int) func(context.Context, database.DBTX) error {
		return func(ctx context.Context, db database.DBTX) error {
			rows, err := reconciledb.New(db).SnapshotPresetsOf(ctx, []uuid.UUID{template})
			require.Len(t, rows, 1)
			require.EqualValues(t, waiting, rows[0].Queued)
			if waiting > 0 {
				require.EqualValues(t, claimed/pools, rows[0].Busy)
			}
			return err
		}
	}
	atJobs := func(ctx context.Context, db database.DBTX) error {
		rows, err := reconciledb.New(db).SnapshotRunnersAtJobs(ctx, reconciledb.SnapshotRunnersAtJobsParams{
			TemplateIds: []uuid.UUID{ofRunners}, PresetIds: []uuid.UUID{runners},
		})
		require.Len(t, rows, each)
		return err
	}
	for _, c := range []struct {
		table string
		run   func(context.Context, database.DBTX) error
		most  int64
	}{
		{"forge_jobs", presetsOf(ofRunners, queued), queued},
		{"workspaces", presetsOf(ofRunners, queued), claimed/pools + 1},
		{"forge_jobs", presetsOf(plain, 0), 0},
		{"workspaces", presetsOf(plain, 0), 0},
		{"forge_runners", atJobs, each},
		{"forge_jobs", atJobs, each},
		{"workspaces", atJobs, each},
	} {
		require.LessOrEqual(t, rowsRead(t, store, c.table, c.run), c.most, c.table)
	}
}

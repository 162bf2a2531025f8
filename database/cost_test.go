package database_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// What claims and passes cost must not grow with the fleet. The measure is rows: PostgreSQL counts those of each table
// that a transaction reads, so the test says the same on any machine. Beside 1,000 pools of 10 stand 100,000 claimed and
// 100,000 deleted workspaces.
func TestCost_doesNotGrowWithTheFleet(t *testing.T) {
	const pools, each, claimed, deleted = 1000, 10, 100_000, 100_000
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: pools, Each: each, Claimed: claimed, Deleted: deleted})
	preset, template := poolIDs(t, store, 500)
	user := uuid.MustParse("00000000-0000-4000-8000-000000000002")

	for _, c := range []struct {
		name string
		most int64 // rows of workspaces
		run  func(ctx context.Context, q *database.Queries) error
	}{
		{"claim", 3, func(ctx context.Context, q *database.Queries) error {
			_, err := q.ClaimWarm(ctx, database.ClaimWarmParams{
				PresetID: preset, UserID: user, ClaimID: uuid.New(), Mode: database.ClaimModeRequire,
			})
			return err
		}},
		{"last look of a claim", 2 * each, func(ctx context.Context, q *database.Queries) error {
			_, err := q.ClaimLast(ctx, database.ClaimLastParams{
				PresetID: preset, UserID: user, ClaimID: uuid.New(), Mode: database.ClaimModeRequire,
			})
			return err
		}},
		{"binding where nobody waits", 0, func(ctx context.Context, q *database.Queries) error {
			_, err := q.BindOldest(ctx, database.BindOldestParams{PresetID: preset})
			return err
		}},
		{"snapshot of one template", each, func(ctx context.Context, q *database.Queries) error {
			_, err := q.SnapshotWorkspacesOf(ctx, []uuid.UUID{template})
			return err
		}},
		{"presets of one template", 0, func(ctx context.Context, q *database.Queries) error {
			_, err := q.SnapshotPresetsOf(ctx, []uuid.UUID{template})
			return err
		}},
		{"snapshot of everything", pools * each, func(ctx context.Context, q *database.Queries) error {
			_, err := q.SnapshotWorkspaces(ctx)
			return err
		}},
		{"presets of everything", 0, func(ctx context.Context, q *database.Queries) error {
			_, err := q.SnapshotPresets(ctx)
			return err
		}},
		{"providers without a maximum", 0, func(ctx context.Context, q *database.Queries) error {
			_, err := q.SnapshotProviders(ctx, true)
			return err
		}},
		{"gauges of everything", 0, func(ctx context.Context, q *database.Queries) error {
			if _, err := q.GaugePauses(ctx); err != nil {
				return err
			}
			if _, err := q.GaugeJobs(ctx); err != nil {
				return err
			}
			presets, err := q.GaugePresets(ctx)
			require.Len(t, presets, pools)
			return err
		}},
		{"leasing where nothing is due", 0, func(ctx context.Context, q *database.Queries) error {
			_, err := q.LeaseJobs(ctx, database.LeaseJobsParams{Kind: "create", Provider: "sim", MaxJobs: 16, LeaseS: 1})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows := rowsRead(t, store, "workspaces", c.run)
			require.LessOrEqual(t, rows, c.most)
		})
	}
}

// Taking the next jobs costs the same whether ten wait or twenty thousand.
func TestCost_leasingDoesNotGrowWithTheLine(t *testing.T) {
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 10, Each: 2000})
	_, err := store.Pool.Exec(context.Background(), `INSERT INTO jobs (id, workspace_id, incarnation, kind, provider,
		priority, due_at, created_at)
		SELECT gen_random_uuid(), id, 1, 'create', 'sim', 10, now() - interval '1 minute', now() FROM workspaces`)
	require.NoError(t, err)
	_, err = store.Pool.Exec(context.Background(), "ANALYZE jobs")
	require.NoError(t, err)
	const n = 16
	rows := rowsRead(t, store, "jobs", func(ctx context.Context, q *database.Queries) error {
		leased, err := q.LeaseJobs(ctx, database.LeaseJobsParams{Kind: "create", Provider: "sim", MaxJobs: 64, LeaseS: 1})
		require.Len(t, leased, n, "what the provider takes in flight")
		return err
	})
	require.LessOrEqual(t, rows, int64(4*n))
}

// rowsRead counts the rows of a table that fn reads, by index or by scan, and rolls back what it did. Plans are made for
// any parameter, as they are for a statement that runs for the thousandth time.
func rowsRead(t *testing.T, store *database.Store, table string, fn func(context.Context, *database.Queries) error) int64 {
	t.Helper()
	ctx := context.Background()
	tx, err := store.Pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, "SET LOCAL plan_cache_mode = force_generic_plan")
	require.NoError(t, err)
	read := func() (rows int64) { // since the connection last reported its counts
		require.NoError(t, tx.QueryRow(ctx, `SELECT seq_tup_read + idx_tup_fetch
			FROM pg_stat_xact_user_tables WHERE relname = $1`, table).Scan(&rows))
		return rows
	}
	before := read()
	require.NoError(t, fn(ctx, store.WithTx(tx)))
	return read() - before
}

func poolIDs(t *testing.T, store *database.Store, n int) (preset, template uuid.UUID) {
	t.Helper()
	require.NoError(t, store.Pool.QueryRow(context.Background(), "SELECT id, template_id FROM presets WHERE template_id = "+
		"(SELECT id FROM templates WHERE name = $1)", fmt.Sprintf("t%d", n)).Scan(&preset, &template))
	return preset, template
}

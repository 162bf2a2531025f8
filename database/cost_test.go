package database_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/alertsdb"
	"github.com/prewarm-dev/prewarm/database/autosizedb"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/eventsdb"
	"github.com/prewarm-dev/prewarm/database/lifecycledb"
	"github.com/prewarm-dev/prewarm/database/reconciledb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// What claims and passes cost must not grow with the fleet. The measure is rows: PostgreSQL counts those of each table
// that a transaction reads, so the test says the same on any machine. Beside 1,000 pools of 10 stand 100,000 claimed and
// 100,000 deleted workspaces.
func TestCost_doesNotGrowWithTheFleet(t *testing.T) {
	t.Parallel()
	const pools, each, claimed, deleted = 1000, 10, 100_000, 100_000
	store := openCost(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: pools, Each: each, Claimed: claimed, Deleted: deleted})
	preset, template := poolIDs(t, store, 500)
	user := uuid.MustParse("00000000-0000-4000-8000-000000000002")
	_, err := store.Pool.Exec(context.Background(), `INSERT INTO preset_status (preset_id, counts, ledger, error, digest, pass_seq, changed_at)
		SELECT id, '{"desired": 10, "actual": 10, "starting": 0}', 'null', '', '', 0, now() FROM presets`) // as passes do
	require.NoError(t, err)

	for _, c := range []struct {
		name string
		most int64 // rows of workspaces
		run  func(ctx context.Context, db database.DBTX) error
	}{
		{"claim", 3, func(ctx context.Context, db database.DBTX) error {
			got, err := workspacesdb.New(db).ClaimBatch(ctx, batchOf(user, preset))
			require.Len(t, got, 1)
			return err
		}},
		{"last look of a claim", 2 * each, func(ctx context.Context, db database.DBTX) error {
			_, err := workspacesdb.New(db).ClaimLast(ctx, workspacesdb.ClaimLastParams{
				PresetID: preset, UserID: user, ClaimID: uuid.New(), Mode: database.ClaimModeRequire,
			})
			return err
		}},
		{"binding where nobody waits", 0, func(ctx context.Context, db database.DBTX) error {
			_, err := workspacesdb.New(db).BindOldest(ctx, workspacesdb.BindOldestParams{PresetID: preset})
			return err
		}},
		{"snapshot of one template", each, func(ctx context.Context, db database.DBTX) error {
			_, err := reconciledb.New(db).SnapshotWorkspacesOf(ctx, []uuid.UUID{template})
			return err
		}},
		{"presets of one template", 0, func(ctx context.Context, db database.DBTX) error {
			_, err := reconciledb.New(db).SnapshotPresetsOf(ctx, []uuid.UUID{template})
			return err
		}},
		{"counting claims", 0, func(ctx context.Context, db database.DBTX) error {
			return autosizedb.New(db).CountClaims(ctx, autosizedb.CountClaimsParams{Since: time.Now().Add(-15 * time.Minute), Through: time.Now()})
		}},
		{"counting provisions", 0, func(ctx context.Context, db database.DBTX) error {
			return autosizedb.New(db).CountProvisions(ctx, time.Now().Add(-15*time.Minute))
		}},
		{"sampling all pools: what is claimed is counted", claimed, func(ctx context.Context, db database.DBTX) error {
			sampled, err := autosizedb.New(db).SamplePresets(ctx, time.Now().Truncate(5*time.Minute))
			require.EqualValues(t, pools, sampled)
			return err
		}},
		{"how long states last", 3 * 200, func(ctx context.Context, db database.DBTX) error {
			_, err := viewsdb.New(db).StateDurations(ctx, viewsdb.StateDurationsParams{TemplateID: template, PresetID: preset, Most: 200})
			return err
		}},
		{"snapshot of everything", pools * each, func(ctx context.Context, db database.DBTX) error {
			_, err := reconciledb.New(db).SnapshotWorkspaces(ctx)
			return err
		}},
		{"presets of everything", 0, func(ctx context.Context, db database.DBTX) error {
			_, err := reconciledb.New(db).SnapshotPresets(ctx)
			return err
		}},
		{"providers without a maximum", 0, func(ctx context.Context, db database.DBTX) error {
			_, err := reconciledb.New(db).SnapshotProviders(ctx, reconciledb.SnapshotProvidersParams{IsFull: true})
			return err
		}},
		{"what a nudge of one template looks for beside it", 0, func(ctx context.Context, db database.DBTX) error {
			if _, err := reconciledb.New(db).SnapshotHeldBack(ctx, []uuid.UUID{template}); err != nil {
				return err
			}
			_, err := reconciledb.New(db).SnapshotProviders(ctx, reconciledb.SnapshotProvidersParams{TemplateIds: []uuid.UUID{template}})
			return err
		}},
		{"gauges of everything", 0, func(ctx context.Context, db database.DBTX) error {
			q := alertsdb.New(db)
			if _, err := q.GaugePauses(ctx); err != nil {
				return err
			}
			if _, err := q.GaugeJobs(ctx); err != nil {
				return err
			}
			if _, err := q.GaugeForges(ctx); err != nil {
				return err
			}
			if _, err := q.GaugeRunners(ctx); err != nil {
				return err
			}
			presets, err := q.GaugePresets(ctx)
			require.Len(t, presets, pools)
			return err
		}},
		{"leasing where nothing is due", 0, func(ctx context.Context, db database.DBTX) error {
			_, err := lifecycledb.New(db).LeaseJobs(ctx, lifecycledb.LeaseJobsParams{Kind: "create", Provider: "sim", MaxJobs: 16, LeaseS: 1})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			rows := rowsRead(t, store, "workspaces", c.run)
			require.LessOrEqual(t, rows, c.most)
		})
	}

	// A search by words reads each name once, and not once for each of the workspaces that it looks at.
	words := []string{"%t99%", "%rewarm%"}
	for name, run := range map[string]func(ctx context.Context, db database.DBTX) (int, error){
		"searching claims in use": func(ctx context.Context, db database.DBTX) (int, error) {
			found, err := viewsdb.New(db).BoundClaims(ctx, viewsdb.BoundClaimsParams{
				OrganizationID: auth.DefaultOrganizationID, Words: words, MaxClaims: 101,
			})
			return len(found), err //nolint:wrapcheck // a test
		},
		"searching workspaces": func(ctx context.Context, db database.DBTX) (int, error) {
			found, err := viewsdb.New(db).WorkspacePage(ctx, viewsdb.WorkspacePageParams{
				OrganizationID: auth.DefaultOrganizationID, Words: words, Claimed: true, Unclaimed: true, MaxWorkspaces: 101,
			})
			return len(found), err //nolint:wrapcheck // a test
		},
	} {
		t.Run(name, func(t *testing.T) {
			rows := rowsRead(t, store, "presets", func(ctx context.Context, db database.DBTX) error {
				found, err := run(ctx, db)
				require.Equal(t, 101, found)
				return err
			})
			require.LessOrEqual(t, rows, int64(4*pools))
		})
	}
}

// Taking the next jobs costs the same whether ten wait or twenty thousand.
func TestCost_leasingDoesNotGrowWithTheLine(t *testing.T) {
	t.Parallel()
	store := openCost(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 10, Each: 2000})
	_, err := store.Pool.Exec(context.Background(), `INSERT INTO jobs (id, workspace_id, incarnation, kind, provider,
		priority, due_at, created_at)
		SELECT gen_random_uuid(), id, 1, 'create', 'sim', 10, now() - interval '1 minute', now() FROM workspaces`)
	require.NoError(t, err)
	_, err = store.Pool.Exec(context.Background(), "ANALYZE jobs")
	require.NoError(t, err)
	const n = 16
	rows := rowsRead(t, store, "jobs", func(ctx context.Context, db database.DBTX) error {
		leased, err := lifecycledb.New(db).LeaseJobs(ctx, lifecycledb.LeaseJobsParams{Kind: "create", Provider: "sim", MaxJobs: 64, LeaseS: 1})
		require.Len(t, leased, n, "what the provider takes in flight")
		return err
	})
	require.LessOrEqual(t, rows, int64(4*n))
}

// While another session holds a snapshot, the index entries of what was claimed since can't be removed. A claim with a
// floor does not walk over them.
func TestCost_claimsDoNotWalkOverTheDead(t *testing.T) {
	t.Parallel()
	const claimed = 4000
	ctx := context.Background()
	store := openCost(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1, Each: claimed + 100})
	preset, _ := poolIDs(t, store, 1)
	user := uuid.MustParse("00000000-0000-4000-8000-000000000002")

	held, err := store.Pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	require.NoError(t, err)
	defer func() { _ = held.Rollback(ctx) }()
	_, err = held.Exec(ctx, "SELECT count(*) FROM workspaces")
	require.NoError(t, err)
	var floor time.Time
	require.NoError(t, store.Pool.QueryRow(ctx, `WITH old AS (
			SELECT id FROM workspaces WHERE state = 'ready' ORDER BY ready_at, id LIMIT $1
		), gone AS (
			UPDATE workspaces SET state = 'claimed' WHERE id IN (SELECT id FROM old) RETURNING id
		) SELECT min(ready_at) FROM workspaces WHERE state = 'ready' AND id NOT IN (SELECT id FROM gone)`, claimed).Scan(&floor))

	walk := func(floor time.Time) int64 {
		arg := batchOf(user, preset)
		arg.Floors[0] = floor
		return entriesRead(t, store, "workspaces_claimable", func(ctx context.Context, db database.DBTX) error {
			got, err := workspacesdb.New(db).ClaimBatch(ctx, arg)
			require.Len(t, got, 1)
			return err
		})
	}
	require.Greater(t, walk(time.Time{}), int64(claimed), "without a floor: the dead entries are there")
	require.LessOrEqual(t, walk(floor), int64(3), "with a floor")
}

// A batch reads what it claims, however many pools that is from.
func TestCost_batchReadsWhatItClaims(t *testing.T) {
	t.Parallel()
	const pools, n = 1000, 64
	store := openCost(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: pools, Each: 10, Claimed: 20_000})
	user := uuid.MustParse("00000000-0000-4000-8000-000000000002")
	var one, many []uuid.UUID
	for i := range n {
		preset, _ := poolIDs(t, store, i+1)
		many = append(many, preset)
	}
	for range 10 {
		one = append(one, many[0])
	}
	for _, presets := range [][]uuid.UUID{one, many} {
		rows := rowsRead(t, store, "workspaces", func(ctx context.Context, db database.DBTX) error {
			got, err := workspacesdb.New(db).ClaimBatch(ctx, batchOf(user, presets...))
			require.Len(t, got, len(presets))
			return err
		})
		require.LessOrEqual(t, rows, int64(3*len(presets)))
	}
}

// A batch of few claims finds its presets among a thousand without reading the others.
func TestCost_batchReadsItsPresets(t *testing.T) {
	t.Parallel()
	const pools, n = 1000, 8
	store := openCost(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: pools, Each: 1})
	user := uuid.MustParse("00000000-0000-4000-8000-000000000002")
	var presets []uuid.UUID
	for i := range n {
		preset, _ := poolIDs(t, store, i+1)
		presets = append(presets, preset)
	}
	for _, table := range []string{"presets", "templates"} {
		rows := rowsRead(t, store, table, func(ctx context.Context, db database.DBTX) error {
			got, err := workspacesdb.New(db).ClaimBatch(ctx, batchOf(user, presets...))
			require.Len(t, got, n)
			return err
		})
		require.LessOrEqual(t, rows, int64(2*n), table)
	}
}

// To plan a batch takes about as long as to run it, so it is planned once for all sizes: PostgreSQL makes five plans for
// the parameters at hand, and goes on with those only if they look cheaper than one for any.
func TestCost_batchIsPlannedOnce(t *testing.T) {
	t.Parallel()
	const pools, times = 300, 40
	ctx := context.Background()
	store := openCost(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: pools, Each: 10})
	user := uuid.MustParse("00000000-0000-4000-8000-000000000002")
	var presets []uuid.UUID
	for i := range 16 {
		preset, _ := poolIDs(t, store, i+1)
		presets = append(presets, preset)
	}
	tx, err := store.Pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	for i := range times {
		_, err := workspacesdb.New(tx).ClaimBatch(ctx, batchOf(user, presets[:1+i/10]...))
		require.NoError(t, err)
	}
	var custom, generic int64
	require.NoError(t, tx.QueryRow(ctx, `SELECT custom_plans, generic_plans FROM pg_prepared_statements
		WHERE statement LIKE '-- name: ClaimBatch %'`).Scan(&custom, &generic))
	require.Equal(t, int64(times), custom+generic)
	require.LessOrEqual(t, custom, int64(5))
}

// A page of pools adds the claims that are not counted yet, and of a storm in that minute no more than fifty of each pool.
func TestCost_claimsNotCountedYetAreFew(t *testing.T) {
	t.Parallel()
	const pools = 1000
	store := openCost(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: pools, Each: 1})
	ids := make([]uuid.UUID, 100)
	for i := range ids {
		ids[i], _ = poolIDs(t, store, i+1)
	}
	require.NoError(t, store.Pool.QueryRow(context.Background(), "SELECT id FROM presets ORDER BY id LIMIT 1").Scan(&ids[0]))
	for _, statement := range []string{
		`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, created_at)
			SELECT gen_random_uuid(), p.organization_id, p.id, u.id, 'require', 'missed', 'miss', now() - n * interval '1 s'
			FROM presets p, (SELECT id FROM users LIMIT 1) u, generate_series(1, 60) n`,
		// One has most of all claims, from yesterday, so that it looks as if any fifty of the table would do.
		`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, created_at)
			SELECT gen_random_uuid(), p.organization_id, p.id, u.id, 'require', 'missed', 'miss',
			  now() - interval '1 day' - random() * interval '10 days'
			FROM (SELECT * FROM presets ORDER BY id LIMIT 1) p, (SELECT id FROM users LIMIT 1) u, generate_series(1, 200000) n`,
		"ANALYZE claims",
	} {
		_, err := store.Pool.Exec(context.Background(), statement)
		require.NoError(t, err)
	}
	for _, c := range []struct {
		through string
		each    int64
	}{{"now()", 0}, {"now() - interval '20 s'", 20}, {"NULL", 50}} {
		_, err := store.Pool.Exec(context.Background(), "UPDATE autosize_progress SET counted_through = "+c.through)
		require.NoError(t, err)
		for _, of := range [][]uuid.UUID{ids, ids[:1]} {
			rows := rowsRead(t, store, "claims", func(ctx context.Context, db database.DBTX) error {
				_, err := viewsdb.New(db).PoolHours(ctx, of)
				return err
			})
			require.LessOrEqual(t, rows, c.each*int64(len(of)), c.through)
		}
	}
}

// Whoever looks for what has changed reads that, and not the log before it or workspaces that did not change.
func TestCost_eventsReadWhatIsNew(t *testing.T) {
	t.Parallel()
	const fresh, gaps = 50, 100
	ctx := context.Background()
	store := openCost(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 10, Each: 10, Claimed: 20_000})
	for _, statement := range []string{
		`INSERT INTO workspace_history (workspace_id, incarnation, to_state, at, actor_id)
			SELECT id, 1, state, now(), owner_id FROM workspaces`,
		`INSERT INTO audit_log (at, actor_id, action, target_type, target_id)
			SELECT now(), owner_id, 'workspace.claim', 'workspace', id::text FROM workspaces`,
		"ANALYZE workspace_history", "ANALYZE audit_log",
	} {
		_, err := store.Pool.Exec(ctx, statement)
		require.NoError(t, err)
	}
	marks, err := eventsdb.New(store).EventMarks(ctx)
	require.NoError(t, err)
	missing := make([]int64, gaps)
	for i := range missing {
		missing[i] = marks.History + int64(i+1)
	}
	look := func(ctx context.Context, db database.DBTX) error {
		q := eventsdb.New(db)
		history, err := q.HistorySince(ctx, eventsdb.HistorySinceParams{
			After: marks.History - fresh, MaxRows: 500, Gaps: missing,
		})
		if err != nil {
			return err
		}
		require.Len(t, history, fresh)
		audit, err := q.AuditSince(ctx, eventsdb.AuditSinceParams{After: marks.Audit - fresh, MaxRows: 500, Gaps: missing})
		require.Len(t, audit, fresh)
		if err == nil {
			_, err = q.EventMarks(ctx)
		}
		return err
	}
	for table, most := range map[string]int64{"workspaces": fresh, "workspace_history": fresh + 1, "audit_log": fresh + 1} {
		require.LessOrEqual(t, rowsRead(t, store, table, look), most, table)
	}
}

// openCost opens an empty database for what counts rows: nothing changes its tables and statistics on its own, what is open
// stays so however long the rest takes, and to fill it may take its time.
func openCost(t *testing.T) *database.Store {
	t.Helper()
	url := dbtest.URL(t) + "&statement_timeout=0&idle_in_transaction_session_timeout=0"
	store := dbtest.OpenURL(t, url, database.Options{})
	_, err := store.Pool.Exec(context.Background(), `DO $$ DECLARE name regclass; BEGIN
		FOR name IN SELECT oid FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' LOOP
			EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', name);
		END LOOP; END $$`)
	require.NoError(t, err)
	return store
}

// entriesRead counts the entries of an index that fn reads, those of dead rows too.
func entriesRead(t *testing.T, store *database.Store, index string, fn func(context.Context, database.DBTX) error) int64 {
	t.Helper()
	ctx := context.Background()
	tx, err := store.Pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, "SET LOCAL plan_cache_mode = force_generic_plan")
	require.NoError(t, err)
	read := func() (entries int64) {
		require.NoError(t, tx.QueryRow(ctx, "SELECT pg_stat_get_xact_tuples_returned($1::regclass)", index).Scan(&entries))
		return entries
	}
	before := read()
	require.NoError(t, fn(ctx, tx))
	return read() - before
}

// rowsRead counts the rows of a table that fn reads, by index or by scan, and rolls back what it did. Plans are made for
// any parameter, as they are for a statement that runs for the thousandth time.
func rowsRead(t *testing.T, store *database.Store, table string, fn func(context.Context, database.DBTX) error) int64 {
	t.Helper()
	ctx := context.Background()
	tx, err := store.Pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, "SET LOCAL plan_cache_mode = force_generic_plan")
	require.NoError(t, err)
	read := func() (rows int64) { // since the connection last reported its counts
		require.NoError(t, tx.QueryRow(ctx, `SELECT sum(seq_tup_read + idx_tup_fetch)::bigint FROM pg_stat_xact_user_tables
			WHERE relid = $1::regclass OR relid IN (SELECT inhrelid FROM pg_inherits WHERE inhparent = $1::regclass)`, table).Scan(&rows))
		return rows
	}
	before := read()
	require.NoError(t, fn(ctx, tx))
	return read() - before
}

func poolIDs(t *testing.T, store *database.Store, n int) (preset, template uuid.UUID) {
	t.Helper()
	require.NoError(t, store.Pool.QueryRow(context.Background(), "SELECT id, template_id FROM presets WHERE template_id = "+
		"(SELECT id FROM templates WHERE name = $1)", fmt.Sprintf("t%d", n)).Scan(&preset, &template))
	return preset, template
}

// batchOf is a batch of one claim on each of the presets.
func batchOf(user uuid.UUID, presets ...uuid.UUID) workspacesdb.ClaimBatchParams {
	var arg workspacesdb.ClaimBatchParams
	for _, preset := range presets {
		arg.ClaimIds, arg.PresetIds = append(arg.ClaimIds, uuid.New()), append(arg.PresetIds, preset)
		arg.UserIds, arg.IdempotencyKeys = append(arg.UserIds, user), append(arg.IdempotencyKeys, "")
		arg.Modes, arg.Sources = append(arg.Modes, "require"), append(arg.Sources, "test")
		if !slices.Contains(arg.Pools, preset) {
			arg.Pools, arg.Floors = append(arg.Pools, preset), append(arg.Floors, time.Time{})
		}
	}
	return arg
}

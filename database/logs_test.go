package database_test

import (
	"context"
	"fmt"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/autosizedb"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/eventsdb"
	"github.com/prewarm-dev/prewarm/database/retentiondb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// lastBeforeLogs is the last migration in which history and the audit log were tables without partitions.
const lastBeforeLogs = "00049"

// migrationsThrough are our migrations up to one.
func migrationsThrough(t testing.TB, last string) fs.FS {
	t.Helper()
	set := fstest.MapFS{}
	entries, err := fs.ReadDir(database.Migrations(), ".")
	require.NoError(t, err)
	for _, entry := range entries {
		if entry.Name()[:len(last)] > last {
			continue
		}
		text, err := fs.ReadFile(database.Migrations(), entry.Name())
		require.NoError(t, err)
		set[entry.Name()] = &fstest.MapFile{Data: text}
	}
	return set
}

// keepLogs makes the partitions that so many weeks of upkeep would have made, and drops none.
func keepLogs(t testing.TB, store *database.Store, weeks int) {
	t.Helper()
	_, err := store.Pool.Exec(context.Background(), fmt.Sprintf(`DO $$ BEGIN
		FOR k IN REVERSE %d..0 LOOP
			PERFORM set_config('prewarm.now', (now() - k * interval '1 week')::text, false);
			WHILE prewarm_keep_log('audit_log', 'month', interval '10 years', 1) <> '' LOOP END LOOP;
			CONTINUE WHEN k > 8;
			WHILE prewarm_keep_log('workspace_history', 'week', interval '10 years', 1) <> '' LOOP END LOOP;
		END LOOP;
		PERFORM set_config('prewarm.now', '', false);
	END $$`, weeks))
	require.NoError(t, err)
}

// What people, screens and loops read of the logs is found by index, and in no more partitions than it takes, beside 240,000
// rows of a year: as for TestCost_doesNotGrowWithTheFleet, rows are counted.
func TestCost_logsAreReadByIndex(t *testing.T) {
	t.Parallel()
	const each, ends = 120_000, 100 // rows; and those that the planner reads at the ends of indexes
	ctx := context.Background()
	store := openCost(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 10, Each: 100})
	keepLogs(t, store, 60)
	preset, template := poolIDs(t, store, 5)
	other := uuid.New()
	for _, statement := range []string{
		// From the beginning of a partition on: of one with few rows all are read, whatever indexes there are.
		// Four rows of each workspace; of the 1,000 that are there, in the last hours.
		fmt.Sprintf(`INSERT INTO workspace_history (workspace_id, incarnation, to_state, at, actor_id)
			SELECT md5((n / 4)::text)::uuid, 1, 'ready', b.at + n * (now() - interval '1 day' - b.at) / %[1]d, md5('a')::uuid
			FROM generate_series(1, %[1]d) n, (SELECT date_trunc('week', now() - interval '34 days', 'UTC') at) b`, each),
		`INSERT INTO workspace_history (workspace_id, incarnation, from_state, to_state, at, actor_id)
			SELECT id, 1, 'starting', 'ready', now() - interval '1 hour', owner_id FROM workspaces, generate_series(1, 4)`,
		`UPDATE workspaces SET created_at = now() - interval '2 hours'`,
		// An organization of last week, beside one of years.
		fmt.Sprintf(`INSERT INTO audit_log (at, actor_id, organization_id, action, target_type, target_id)
			SELECT b.at + n * (now() - b.at) / %[1]d, md5('a')::uuid,
				CASE WHEN n > %[1]d - 1000 AND n %% 2 = 0 THEN '%[2]s' ELSE '%[3]s' END::uuid, 'workspace.claim', 'workspace', n::text
			FROM generate_series(1, %[1]d) n, (SELECT date_trunc('month', now() - interval '370 days', 'UTC') at) b`, each, other, auth.DefaultOrganizationID),
		"VACUUM ANALYZE workspace_history", "VACUUM ANALYZE audit_log", "ANALYZE workspaces",
	} {
		_, err := store.Pool.Exec(ctx, statement)
		require.NoError(t, err)
	}
	marks, err := eventsdb.New(store).EventMarks(ctx)
	require.NoError(t, err)
	var middle viewsdb.AuditWindowRow
	require.NoError(t, store.Pool.QueryRow(ctx, "SELECT at, id FROM audit_log ORDER BY id OFFSET $1 LIMIT 1", each/2).Scan(&middle.At, &middle.ID))
	partitions := func(log string) (n int64) {
		require.NoError(t, store.Pool.QueryRow(ctx, "SELECT count(*) FROM prewarm_log_partitions($1)", log).Scan(&n))
		return n
	}
	require.GreaterOrEqual(t, partitions("workspace_history"), int64(8))
	require.GreaterOrEqual(t, partitions("audit_log"), int64(15))
	page := func(arg viewsdb.AuditLogParams, rows int) func(context.Context, database.DBTX) error {
		return func(ctx context.Context, db database.DBTX) error {
			arg.MaxEntries = 101
			_, err := db.Exec(ctx, "SET LOCAL plan_cache_mode = auto")
			require.NoError(t, err)
			found, err := viewsdb.New(database.Planned(db)).AuditLog(ctx, arg)
			require.Len(t, found, rows)
			return err
		}
	}
	week := time.Now().Add(-7 * 24 * time.Hour)
	for _, c := range []struct {
		name, log string
		most      int64
		run       func(ctx context.Context, db database.DBTX) error
	}{
		{"first page", "audit_log", 2 * 101, page(viewsdb.AuditLogParams{OrganizationID: auth.DefaultOrganizationID}, 101)},
		{"a page in the middle", "audit_log", 101, page(viewsdb.AuditLogParams{
			OrganizationID: auth.DefaultOrganizationID, BeforeAt: &middle.At, BeforeID: &middle.ID,
		}, 101)},
		{"first page of a young organization", "audit_log", 2 * 101, page(viewsdb.AuditLogParams{OrganizationID: other}, 101)},
		{"what is before a week", "audit_log", 101, page(viewsdb.AuditLogParams{
			OrganizationID: auth.DefaultOrganizationID, Until: &week,
		}, 101)},
		{"what a search looks at", "audit_log", 5000, page(viewsdb.AuditLogParams{
			OrganizationID: auth.DefaultOrganizationID, Words: []string{"%nowhere%"}, BottomAt: &middle.At, BottomID: ptr(middle.ID),
			BeforeAt: ptr(middle.At.Add(10 * 24 * time.Hour)), BeforeID: ptr(marks.Audit),
		}, 0)},
		{"how far a search goes", "audit_log", 2001, func(ctx context.Context, db database.DBTX) error {
			_, err := db.Exec(ctx, "SET LOCAL plan_cache_mode = auto")
			require.NoError(t, err)
			_, err = viewsdb.New(database.Planned(db)).AuditWindow(ctx, viewsdb.AuditWindowParams{
				OrganizationID: auth.DefaultOrganizationID, BeforeAt: &middle.At, BeforeID: &middle.ID, Size: 2000,
			})
			return err
		}},
		{"where a page begins", "audit_log", partitions("audit_log"), func(ctx context.Context, db database.DBTX) error {
			_, err := viewsdb.New(db).AuditPlace(ctx, middle.ID)
			return err
		}},
		{"new entries", "audit_log", 50, func(ctx context.Context, db database.DBTX) error {
			found, err := eventsdb.New(db).AuditSince(ctx, eventsdb.AuditSinceParams{After: marks.Audit - 50, MaxRows: 500, Gaps: []int64{marks.Audit + 1}})
			require.Len(t, found, 50)
			return err
		}},
		{"new transitions", "workspace_history", 50, func(ctx context.Context, db database.DBTX) error {
			found, err := eventsdb.New(db).HistorySince(ctx, eventsdb.HistorySinceParams{After: marks.History - 50, MaxRows: 500, Gaps: []int64{marks.History + 1}})
			require.Len(t, found, 50)
			return err
		}},
		{"ends of the logs", "workspace_history", partitions("workspace_history"), func(ctx context.Context, db database.DBTX) error {
			_, err := eventsdb.New(db).EventMarks(ctx)
			return err
		}},
		{"history of a workspace", "workspace_history", 4, func(ctx context.Context, db database.DBTX) error {
			found, err := viewsdb.New(db).HistoryViews(ctx, uuid.MustParse("a87ff679-a2f3-e71d-9181-a67b7542122c")) // md5('4')
			require.Len(t, found, 4)
			return err
		}},
		{"how long states last", "workspace_history", 4 * 100, func(ctx context.Context, db database.DBTX) error {
			_, err := viewsdb.New(db).StateDurations(ctx, viewsdb.StateDurationsParams{TemplateID: template, PresetID: preset, Most: 200})
			return err
		}},
		{"counting provisions", "workspace_history", 0, func(ctx context.Context, db database.DBTX) error {
			return autosizedb.New(db).CountProvisions(ctx, time.Now().Add(-15*time.Minute))
		}},
		{"purging where partitions are dropped", "workspace_history", 0, func(ctx context.Context, db database.DBTX) error {
			_, err := retentiondb.New(db).PurgeHistory(ctx, retentiondb.PurgeHistoryParams{KeepS: (24 * time.Hour).Seconds(), Batch: 1000})
			return err
		}},
		{"purging the audit log where partitions are dropped", "audit_log", 0, func(ctx context.Context, db database.DBTX) error {
			_, err := retentiondb.New(db).PurgeAudit(ctx, retentiondb.PurgeAuditParams{KeepS: (24 * time.Hour).Seconds(), Batch: 1000})
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) { require.LessOrEqual(t, rowsRead(t, store, c.log, c.run), c.most+ends) })
	}
}

func ptr[T any](v T) *T { return &v }

// Statements of the release before that read or delete by another form than today's; those that insert are the same.
var statementsBefore = []struct {
	text string
	args []any
}{
	{`DELETE FROM workspace_history h
		USING (SELECT o.id FROM workspace_history o
		       WHERE o.at < prewarm_now() - $1::double precision * interval '1 second'
		         AND NOT EXISTS (SELECT FROM workspaces w WHERE w.id = o.workspace_id)
		       ORDER BY o.id LIMIT $2) old
		WHERE h.id = old.id`, []any{30 * 86400.0, 10}},
	{`DELETE FROM audit_log a
		USING (SELECT o.id FROM audit_log o
		       WHERE o.at < prewarm_now() - $1::double precision * interval '1 second'
		       ORDER BY o.at LIMIT $2) old
		WHERE a.id = old.id`, []any{365 * 86400.0, 10}},
	{`SELECT a.id FROM audit_log a LEFT JOIN users u ON u.id = a.actor_id
		WHERE ($1::bigint IS NULL OR a.id < $1::bigint) ORDER BY a.id DESC LIMIT $2`, []any{1 << 40, 10}},
	{`SELECT h.to_state, lead(h.at) OVER (ORDER BY h.id) - h.at FROM workspace_history h
		WHERE h.workspace_id = $1 ORDER BY h.id LIMIT $2`, []any{uuid.UUID{}, 10}},
	{`SELECT x.state, count(*) FROM (SELECT id FROM workspaces LIMIT $1) latest
		CROSS JOIN LATERAL (SELECT h.to_state AS state FROM workspace_history h WHERE h.workspace_id = latest.id) x
		GROUP BY x.state LIMIT $2`, []any{10, 10}},
}

// A full database is partitioned while a replica of the release before works: nothing of it is lost, moved or refused, and its
// prepared statements go on, at each step of the upkeep. A migration that was killed leaves all as it was.
func TestMigrate_partitionsFullLogs(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url := emptyDatabase(t)
	require.NoError(t, migrateTo(ctx, url, migrationsThrough(t, lastBeforeLogs)))
	store := dbtest.OpenURL(t, url, database.Options{})
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1, Each: 2000})
	preset, _ := poolIDs(t, store, 1)
	for _, statement := range []string{
		`INSERT INTO workspace_history (workspace_id, incarnation, to_state, at, actor_id)
			SELECT gen_random_uuid(), 1, 'ready', now() - n * interval '1 minute', md5('a')::uuid FROM generate_series(100000, 1, -1) n`,
		`INSERT INTO audit_log (at, actor_id, action, target_type, target_id)
			SELECT now() - n * interval '10 minutes', md5('a')::uuid, 'workspace.claim', 'workspace', 'x' FROM generate_series(100000, 1, -1) n`,
		fmt.Sprintf("CREATE ROLE reads_%[1]s; GRANT SELECT ON audit_log TO reads_%[1]s; GRANT INSERT ON audit_log TO PUBLIC", roleOf(store)),
	} {
		_, err := store.Pool.Exec(ctx, statement)
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		_, err := store.Pool.Exec(ctx, fmt.Sprintf("DROP OWNED BY reads_%[1]s; DROP ROLE reads_%[1]s", roleOf(store)))
		require.NoError(t, err)
	})
	files := func() (nodes map[string]int) {
		nodes = map[string]int{}
		rows, err := store.Pool.Query(ctx, `SELECT relfilenode::text FROM pg_class
			WHERE relname ~ '^(workspace_history|audit_log)(_before)?(_|$)' AND relfilenode <> 0 AND relkind IN ('r', 'i') AND relname <> 'audit_log_target'`)
		require.NoError(t, err)
		all, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		for _, node := range all {
			nodes[node]++
		}
		return nodes
	}
	fileOf := files()

	// The replica of before: its statements are prepared on one connection, and planned before the migration.
	before, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer before.Close(ctx)
	claims := 0
	work := func() {
		t.Helper()
		got, err := workspacesdb.New(before).ClaimBatch(ctx, batchOf(uuid.MustParse("00000000-0000-4000-8000-000000000002"), preset))
		require.NoError(t, err)
		require.Len(t, got, 1)
		claims++
		for _, s := range statementsBefore {
			_, err := before.Exec(ctx, s.text, s.args...)
			require.NoError(t, err, s.text)
		}
	}
	count := func(query string) (n int) {
		t.Helper()
		require.NoError(t, store.Pool.QueryRow(ctx, query).Scan(&n))
		return n
	}
	for range 7 { // so that plans for any parameters are kept
		work()
	}

	// Killed in the middle: the connection goes while the migration waits for its second table.
	tx, err := before.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, "LOCK TABLE audit_log IN ROW EXCLUSIVE MODE")
	require.NoError(t, err)
	killed, kill := context.WithCancel(ctx)
	migrated := make(chan error, 1)
	go func() { migrated <- database.Migrate(killed, url) }()
	require.Eventually(t, func() bool {
		return count("SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'audit_log'::regclass") > 0
	}, time.Minute, time.Millisecond)
	kill()
	require.Error(t, <-migrated)
	require.NoError(t, tx.Commit(ctx))
	require.Equal(t, fileOf, files())
	work()

	rows, end := count("SELECT count(*) FROM audit_log"), count("SELECT max(id) FROM audit_log")
	require.NoError(t, database.Migrate(ctx, url))
	require.Equal(t, fileOf, files(), "no table or index was written again")
	require.Equal(t, rows, count("SELECT count(*) FROM audit_log"))
	work()
	require.Equal(t, end+1, count("SELECT max(id) FROM audit_log"), "numbers go on")
	require.Equal(t, 2, count(fmt.Sprintf(`SELECT has_table_privilege('reads_%[1]s', 'audit_log', 'SELECT')::int
		+ has_table_privilege('reads_%[1]s', 'audit_log', 'INSERT')::int`, roleOf(store))), "who could read still can")

	for _, log := range []string{"workspace_history', 'week", "audit_log', 'month"} {
		for step := "begin"; step != ""; work() {
			require.NoError(t, store.Pool.QueryRow(ctx, "SELECT prewarm_keep_log('"+log+"', interval '1 year', 1000)").Scan(&step))
			t.Log(step)
		}
	}
	require.Equal(t, claims, count("SELECT count(*) FROM workspace_history WHERE to_state = 'claimed'"))
	require.Equal(t, claims, count("SELECT count(*) FROM audit_log WHERE target_id <> 'x'"))
	require.Zero(t, count("SELECT count(*) FROM (SELECT id FROM workspace_history GROUP BY id HAVING count(*) > 1) twice"))
}

// roleOf is the end of the name of a role that is this test's, since roles are the whole server's.
func roleOf(store *database.Store) string { return store.Pool.Config().ConnConfig.Database }

// No row is refused, whatever its time: long before the first partition and long after the last.
func TestLogs_anyTime(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	keepLogs(t, store, 20)
	for _, at := range []string{"-infinity", "1970-01-01", "2999-01-01", "infinity"} {
		_, err := store.Pool.Exec(ctx, `INSERT INTO audit_log (at, actor_id, action, target_type, target_id)
			VALUES ($1::text::timestamptz, md5('a')::uuid, 'a', 'b', 'c')`, at)
		require.NoError(t, err, at)
	}
}

package database_test

import (
	"context"
	"io/fs"
	"testing"
	"testing/fstest"
	"time"

	"github.com/coder/quartz"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// migrationSet has a migration for each version, which makes a table of that name.
func migrationSet(names ...string) fs.FS {
	set := fstest.MapFS{}
	for _, name := range names {
		set[name+"_table.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE t" + name + " ();\n")}
	}
	return set
}

func migrateTo(ctx context.Context, url string, set fs.FS) error {
	return database.MigrateTo(ctx, url, set, quartz.NewReal())
}

func TestMigrate_olderBinaryRunsOnNewerSchema(t *testing.T) {
	t.Parallel()
	ctx, url := context.Background(), emptyDatabase(t)
	require.NoError(t, migrateTo(ctx, url, migrationSet("00001", "00002", "00003")))
	require.NoError(t, migrateTo(ctx, url, migrationSet("00001", "00002")))
	require.Equal(t, []string{"t00001", "t00002", "t00003"}, tables(t, url))
}

func TestMigrate_refusesGap(t *testing.T) {
	t.Parallel()
	ctx, url := context.Background(), emptyDatabase(t)
	require.NoError(t, migrateTo(ctx, url, migrationSet("00001", "00003")))
	err := migrateTo(ctx, url, migrationSet("00001", "00002", "00003"))
	require.ErrorContains(t, err, "missing (out-of-order) migration")
	require.ErrorContains(t, err, "version 2")
	require.Equal(t, []string{"t00001", "t00003"}, tables(t, url), "nothing was applied out of order")
}

func TestMigrate_failureLeavesNothingOfTheMigration(t *testing.T) {
	t.Parallel()
	ctx, url := context.Background(), emptyDatabase(t)
	set := fstest.MapFS{
		"00001_good.sql": {Data: []byte("-- +goose Up\nCREATE TABLE good ();\n")},
		"00002_bad.sql":  {Data: []byte("-- +goose Up\nCREATE TABLE half ();\nSELECT 1/0;\n")},
	}
	require.ErrorContains(t, migrateTo(ctx, url, set), "division by zero")
	require.Equal(t, []string{"good"}, tables(t, url))
	delete(set, "00002_bad.sql")
	set["00002_better.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nCREATE TABLE better ();\n")}
	require.NoError(t, migrateTo(ctx, url, set))
	require.Equal(t, []string{"better", "good"}, tables(t, url))
}

func TestMigrate_replicasAtOnce(t *testing.T) {
	t.Parallel()
	url := emptyDatabase(t)
	var replicas errgroup.Group
	for range 5 {
		replicas.Go(func() error { return database.Migrate(context.Background(), url) })
	}
	require.NoError(t, replicas.Wait())
	require.Contains(t, tables(t, url), "workspaces")
}

// A migration that finds a table in use steps back, so that it stands in nobody's way, and tries again.
func TestMigrate_tableInUse(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	url := emptyDatabase(t)
	require.NoError(t, migrateTo(ctx, url, migrationSet("00001")))
	set := migrationSet("00001").(fstest.MapFS)
	set["00002_more.sql"] = &fstest.MapFile{Data: []byte("-- +goose Up\nALTER TABLE t00001 ADD COLUMN more text;\n")}
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer conn.Close(ctx)
	tx, err := conn.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, "SELECT * FROM t00001")
	require.NoError(t, err)

	clock := quartz.NewMock(t)
	trap := clock.Trap().NewTimer("database", "migrate")
	defer trap.Close()
	migrated := make(chan error, 1)
	go func() { migrated <- database.MigrateTo(ctx, url, set, clock) }()
	trap.MustWait(ctx).MustRelease(ctx) // the first try gave up
	_, err = tx.Exec(ctx, "SELECT * FROM t00001")
	require.NoError(t, err, "nobody stands in the way of the one that was there first")
	require.NoError(t, tx.Rollback(ctx))
	clock.Advance(time.Second).MustWait(ctx)
	require.NoError(t, <-migrated)
	_, err = conn.Exec(ctx, "SELECT more FROM t00001")
	require.NoError(t, err)
}

func TestMigrate_databaseAway(t *testing.T) {
	t.Parallel()
	err := database.Migrate(context.Background(), "postgres://prewarm@/prewarm?host=/nonexistent&sslmode=disable")
	require.ErrorContains(t, err, "connect to database")
	require.True(t, database.IsConnection(err), "%v", err)
}

func tables(t *testing.T, url string) []string {
	t.Helper()
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT tablename FROM pg_tables
		WHERE schemaname = 'public' AND tablename NOT LIKE 'goose%' ORDER BY tablename`)
	require.NoError(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return names
}

// emptyDatabase empties a test database, since these tests are about what is not migrated yet.
func emptyDatabase(t *testing.T) string {
	t.Helper()
	url := dbtest.URL(t)
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, "DROP SCHEMA public CASCADE; CREATE SCHEMA public")
	require.NoError(t, err)
	return url
}

// A migration that waits for a replica that waits for it is ended by PostgreSQL, and tries again.
func TestMigrate_deadlock(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	url := emptyDatabase(t)
	require.NoError(t, migrateTo(ctx, url, migrationSet("00001", "00002")))
	set := migrationSet("00001", "00002").(fstest.MapFS)
	// With the first table in hand it goes for the second once the replica wants the first; or once that has neither.
	set["00003_more.sql"] = &fstest.MapFile{Data: []byte(`-- +goose Up
ALTER TABLE t00001 ADD COLUMN more text;
-- +goose StatementBegin
DO $$ BEGIN
  WHILE EXISTS (SELECT FROM pg_locks WHERE relation = 't00002'::regclass AND granted)
    AND NOT EXISTS (SELECT FROM pg_locks WHERE relation = 't00001'::regclass AND NOT granted) LOOP
    PERFORM pg_sleep(0.01);
  END LOOP;
END $$;
-- +goose StatementEnd
ALTER TABLE t00002 ADD COLUMN more text;
`)}
	replica, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer replica.Close(ctx)
	_, err = replica.Exec(ctx, "SET deadlock_timeout = '1h'") // so that it is the migration that is ended
	require.NoError(t, err)
	tx, err := replica.Begin(ctx)
	require.NoError(t, err)
	_, err = tx.Exec(ctx, "SELECT * FROM t00002")
	require.NoError(t, err)

	clock := quartz.NewMock(t)
	trap := clock.Trap().NewTimer("database", "migrate")
	defer trap.Close()
	migrated := make(chan error, 1)
	go func() { migrated <- database.MigrateTo(ctx, url, set, clock) }()
	watcher, err := pgx.Connect(ctx, url)
	require.NoError(t, err)
	defer watcher.Close(ctx)
	require.Eventually(t, func() bool {
		var has bool
		err := watcher.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_locks
			WHERE relation = 't00001'::regclass AND mode = 'AccessExclusiveLock' AND granted)`).Scan(&has)
		return err == nil && has
	}, time.Minute, 10*time.Millisecond, "the migration has the first table")
	_, err = tx.Exec(ctx, "SELECT * FROM t00001")
	require.NoError(t, err, "the replica goes on")
	trap.MustWait(ctx).MustRelease(ctx)
	require.NoError(t, tx.Rollback(ctx))
	clock.Advance(time.Second).MustWait(ctx)
	require.NoError(t, <-migrated)
	_, err = replica.Exec(ctx, "SELECT t00001.more, t00002.more FROM t00001, t00002")
	require.NoError(t, err)
}

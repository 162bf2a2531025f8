package retention_test

import (
	"context"
	"testing"
	"time"

	"cdr.dev/slog/sloggers/slogtest"
	"github.com/coder/quartz"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/prewarm-dev/prewarm/coderd/retention"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// logWorld is a database whose logs are kept, and whose time is set.
type logWorld struct {
	*database.Store
	t      *testing.T
	now    time.Time
	keeper *retention.Keeper
}

func newLogWorld(t *testing.T) *logWorld {
	t.Helper()
	store := dbtest.Open(t)
	w := &logWorld{
		Store: store, t: t, now: time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC),
		keeper: &retention.Keeper{Store: store, Clock: quartz.NewMock(t), Log: slogtest.Make(t, nil)},
	}
	w.at(w.now)
	return w
}

func (w *logWorld) at(now time.Time) {
	w.t.Helper()
	w.now = now
	dbtest.SetNow(w.t, w.Store, now)
}

func (w *logWorld) purge() {
	w.t.Helper()
	require.NoError(w.t, w.keeper.Purge(context.Background()))
}

func (w *logWorld) exec(statement string, args ...any) {
	w.t.Helper()
	_, err := w.Pool.Exec(context.Background(), statement, args...)
	require.NoError(w.t, err)
}

// days are the days before now of the rows of a log.
func (w *logWorld) days(query string) []int {
	w.t.Helper()
	return column[int](w, "SELECT extract(day FROM prewarm_now() - at)::int FROM "+query+" ORDER BY at DESC")
}

func (w *logWorld) partitions(log string) []string {
	w.t.Helper()
	return column[string](w, "SELECT name FROM prewarm_log_partitions('"+log+"') ORDER BY starts")
}

func column[T any](w *logWorld, query string) []T {
	w.t.Helper()
	rows, err := w.Pool.Query(context.Background(), query)
	require.NoError(w.t, err)
	found, err := pgx.CollectRows(rows, pgx.RowTo[T])
	require.NoError(w.t, err)
	return found
}

// live writes a row of each log for each day of so many weeks; those of the seventh days are of the workspace that is there.
func (w *logWorld) live(weeks int) {
	w.t.Helper()
	for week := range weeks {
		w.at(w.now.Add(7 * 24 * time.Hour))
		w.exec(`INSERT INTO workspace_history (workspace_id, incarnation, to_state, at, actor_id)
			SELECT CASE n WHEN 0 THEN (SELECT id FROM workspaces) ELSE gen_random_uuid() END, 1, 'ready',
				prewarm_now() - n * interval '1 day', md5('a')::uuid
			FROM generate_series(6, 0, -1) n`)
		w.exec(`INSERT INTO audit_log (at, actor_id, action, target_type, target_id)
			SELECT prewarm_now() - n * interval '1 day', md5('a')::uuid, 'workspace.claim', 'workspace', 'x'
			FROM generate_series(6, 0, -1) n`)
		if week%2 == 1 {
			w.purge()
		}
	}
}

// Over a year and more, partitions are there before they are needed, and go as a whole when they are old. What is kept is
// what was promised, at most a partition more. No row is lost before, and none of a workspace that is there ever.
func TestLogs_overAYear(t *testing.T) {
	t.Parallel()
	w := newLogWorld(t)
	dbtest.Fleet(t, w.Store, dbtest.FleetSize{Pools: 1, Each: 1})
	w.purge()
	const weeks = 60
	w.live(weeks)

	require.Subset(t, w.days("audit_log"), upTo(364), "a year")
	require.NotContains(t, w.days("audit_log"), 365+31)
	const others = "workspace_history h WHERE NOT EXISTS (SELECT FROM workspaces w WHERE w.id = h.workspace_id)"
	left := w.days(others)
	require.LessOrEqual(t, left[len(left)-1], 30+7)
	kept := w.days("workspace_history h WHERE EXISTS (SELECT FROM workspaces w WHERE w.id = h.workspace_id)")
	require.Len(t, kept, weeks, "of the workspace that is there, all")
	for day := range 30 {
		require.Contains(t, append(left, kept...), day)
	}

	names := w.partitions("workspace_history")
	require.Equal(t, []string{"workspace_history_before", "workspace_history_open"}, []string{names[0], names[len(names)-1]})
	require.LessOrEqual(t, len(names), 10)
	require.LessOrEqual(t, len(w.partitions("audit_log")), 17)
	require.Equal(t, []int64{0}, column[int64](w, "SELECT count(*) FROM workspace_history_open"), "made ahead")
	require.Equal(t, []int64{0}, column[int64](w, "SELECT count(*) FROM audit_log_open"))
	require.Equal(t, []int64{7 * weeks}, column[int64](w, "SELECT max(id) FROM workspace_history"), "numbers go on")
	require.Equal(t, []int64{0}, column[int64](w, "SELECT count(*) FROM pg_constraint WHERE conname = 'log_closing'"))
}

func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i)
	}
	return all
}

// step makes the next step of history's upkeep alone.
func (w *logWorld) step() string {
	w.t.Helper()
	return column[string](w, "SELECT prewarm_keep_log('workspace_history', 'week', interval '30 days', 1000)")[0]
}

// A database that is full when its logs are partitioned: the table that was there gets an end while rows come, and what is old
// goes by batches until it can go as a whole. A server that dies between two steps leaves nothing that refuses rows.
func TestLogs_full(t *testing.T) {
	t.Parallel()
	w := newLogWorld(t)
	dbtest.Fleet(t, w.Store, dbtest.FleetSize{Pools: 1, Each: 1})
	w.exec(`INSERT INTO workspace_history (workspace_id, incarnation, to_state, at, actor_id)
		SELECT CASE n % 10 WHEN 0 THEN (SELECT id FROM workspaces) ELSE gen_random_uuid() END, 1, 'ready',
			prewarm_now() - n * interval '10 minutes', md5('a')::uuid
		FROM generate_series(1, 10000) n ORDER BY n DESC`)
	require.Contains(t, w.step(), "is to end at 2026-02-23")
	w.exec("INSERT INTO workspace_history (workspace_id, incarnation, to_state, at, actor_id) SELECT id, 1, 'ready', prewarm_now(), owner_id FROM workspaces")

	w.at(w.now.Add(27 * 24 * time.Hour)) // nobody went on for four weeks
	require.Contains(t, w.step(), "is not to end")
	require.Contains(t, w.step(), "is to end at 2026-03-23")
	require.Contains(t, w.step(), "all rows")
	require.Contains(t, w.step(), "the last partition ends at 2026-03-23")
	require.Empty(t, w.step())
	require.Equal(t, []string{"workspace_history_before", "workspace_history_open"}, w.partitions("workspace_history"))
	w.purge()
	require.Equal(t, []int64{1000 + 1, 432 - 43}, append( // those of the last three days of thirty, but every tenth
		column[int64](w, "SELECT count(*) FROM workspace_history h WHERE EXISTS (SELECT FROM workspaces w WHERE w.id = h.workspace_id)"),
		column[int64](w, "SELECT count(*) FROM workspace_history h WHERE NOT EXISTS (SELECT FROM workspaces w WHERE w.id = h.workspace_id)")...))
}

// While a partition is being dropped, any replica goes on with the copying where the last one stopped. It also copies rows that come
// late, and leaves out those whose workspace is deleted meanwhile.
func TestLogs_survivors(t *testing.T) {
	t.Parallel()
	w := newLogWorld(t)
	dbtest.Fleet(t, w.Store, dbtest.FleetSize{Pools: 1, Each: 2})
	w.purge()
	w.at(time.Date(2026, 2, 3, 0, 0, 0, 0, time.UTC)) // in the second partition
	const insert = `INSERT INTO workspace_history (workspace_id, incarnation, to_state, at, actor_id)
		SELECT id, 1, 'ready', prewarm_now(), owner_id FROM workspaces, generate_series(1, $1)`
	w.exec(insert, 2000)
	w.purge()
	w.at(time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC))
	for copied := false; !copied; {
		step := w.step()
		require.NotEmpty(t, step)
		copied = step == "what stays up to number 2000 is copied"
	}
	w.exec(`INSERT INTO workspace_history (workspace_id, incarnation, to_state, at, actor_id)
		SELECT id, 1, 'ready', '2026-02-03', owner_id FROM workspaces LIMIT 1`)
	var two errgroup.Group
	for range 2 {
		two.Go(func() error { return w.keeper.Purge(context.Background()) })
	}
	require.NoError(t, two.Wait())
	w.purge()
	require.Equal(t, []int64{4001}, column[int64](w, "SELECT count(*) FROM workspace_history_before"))
	require.Equal(t, []int64{4001}, column[int64](w, "SELECT count(DISTINCT id) FROM workspace_history"))
	require.Equal(t, []*string{nil}, column[*string](w, "SELECT to_regclass('workspace_history_survivors')::text"))
}

// The upkeep waits only a moment for a session that reads a log for long. It tries again later, and rows have their place until then.
func TestLogs_lockTaken(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newLogWorld(t)
	tx, err := w.Pool.Begin(ctx)
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(ctx) }()
	_, err = tx.Exec(ctx, "SELECT FROM workspace_history")
	require.NoError(t, err)
	w.purge()
	require.Equal(t, []string{"workspace_history_before"}, w.partitions("workspace_history"))
	require.Len(t, w.partitions("audit_log"), 2)
	require.NoError(t, tx.Rollback(ctx))
	w.purge()
	require.Len(t, w.partitions("workspace_history"), 2)
}

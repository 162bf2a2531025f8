package reconcile

import (
	"context"
	"crypto/rand"
	"io"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// count is how many workspaces of a template there are, of a Fleet.
func count(ctx context.Context, t *testing.T, store *database.Store, template string) (n int) {
	t.Helper()
	require.NoError(t, store.Pool.QueryRow(ctx, `SELECT count(*) FROM workspaces w JOIN templates t ON t.id = w.template_id
		WHERE t.name = $1`, template).Scan(&n))
	return n
}

// A preset whose rows the database refuses is reported on itself, and stops no other: each is written under a savepoint of
// its own then (DESIGN section 3, step 6).
func TestApply_oneFailureStopsNoOther(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 3})
	for _, sql := range []string{
		"UPDATE presets SET instances = 2",
		`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$`,
		`CREATE TRIGGER refused BEFORE INSERT ON workspaces FOR EACH ROW WHEN (NEW.template_id = md5('t2')::uuid)
			EXECUTE FUNCTION refuse()`,
	} {
		_, err := store.Pool.Exec(ctx, sql)
		require.NoError(t, err)
	}
	r := testReconciler(store, "one")
	res, err := r.pass(ctx, nil)
	require.NoError(t, err, "the pass itself goes well")
	for template, want := range map[string]int{"t1": 2, "t2": 0, "t3": 2} {
		require.Equal(t, want, count(ctx, t, store, template), template)
	}
	require.Equal(t, 4, res.Created)
	require.Len(t, res.Errors, 1)
	rows, err := store.Pool.Query(ctx, `SELECT t.name, s.error FROM preset_status s JOIN presets p ON p.id = s.preset_id
		JOIN templates t ON t.id = p.template_id`)
	require.NoError(t, err)
	defer rows.Close()
	shown := map[string]string{}
	for rows.Next() {
		var template, text string
		require.NoError(t, rows.Scan(&template, &text))
		shown[template] = text
	}
	require.NoError(t, rows.Err())
	require.Contains(t, shown["t2"], "not this one")
	require.Equal(t, map[string]string{"t1": "", "t2": shown["t2"], "t3": ""}, shown)

	_, err = store.Pool.Exec(ctx, "DROP TRIGGER refused ON workspaces")
	require.NoError(t, err)
	res, err = r.pass(ctx, nil)
	require.NoError(t, err)
	require.Empty(t, res.Errors)
	require.Equal(t, 2, count(ctx, t, store, "t2"), "what was not written counts as nothing")
}

// An error that ends the transaction is reported on no preset. After a lost race the whole pass runs again; where the database
// is away, it fails. Other errors are of one preset: each is written alone then, in the same pass.
func TestApply_errorOfTheTransaction(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 2})
	exec := func(sql string) {
		t.Helper()
		_, err := store.Pool.Exec(ctx, sql)
		require.NoError(t, err)
	}
	r := testReconciler(store, "one")
	exec("CREATE SEQUENCE writes") // which no rollback sets back
	exec("CREATE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NEW; END $$")
	exec("CREATE TRIGGER failing BEFORE INSERT ON workspaces FOR EACH ROW EXECUTE FUNCTION fail_once()")
	for i, c := range []struct {
		code   string
		reruns int
		fails  bool
	}{
		{"40001", 1, false}, // serialization failure
		{"40P01", 1, false}, // deadlock
		{"53100", 0, true},  // disk full
		{"P0001", 0, false}, // RAISE
	} {
		exec("ALTER SEQUENCE writes RESTART")
		exec(`CREATE OR REPLACE FUNCTION fail_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF nextval('writes') = 1 THEN RAISE 'once' USING ERRCODE = '` + c.code + `'; END IF; RETURN NEW; END $$`)
		exec("UPDATE presets SET instances = instances + 1")
		res, err := r.pass(ctx, nil)
		require.Equal(t, c.reruns, res.Reruns, c.code)
		if c.fails {
			require.True(t, database.IsConnection(err), "%s: %v", c.code, err)
			require.Equal(t, i, count(ctx, t, store, "t1"), c.code)
			res, err = r.pass(ctx, nil)
		}
		require.NoError(t, err, c.code)
		require.Empty(t, res.Errors, c.code)
		require.Equal(t, 2, res.Created, c.code)
	}
}

// C6: of creates, one that no worker has begun goes first, though it is younger. Full passes and those of nudges agree.
func TestApply_notBegunGoesFirst(t *testing.T) {
	t.Parallel()
	for name, templates := range map[string]string{"full": "NULL::uuid[]", "nudge": "array_agg(id)"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			store := dbtest.Open(t)
			dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1})
			exec := func(sql string) {
				_, err := store.Pool.Exec(ctx, sql)
				require.NoError(t, err)
			}
			r := testReconciler(store, "one")
			exec("UPDATE presets SET instances = 2")
			pass(ctx, t, r)
			require.Equal(t, 2, count(ctx, t, store, "t1"))

			exec(`WITH begun AS (
					UPDATE jobs SET state = 'running', attempt = 1, leased_by = 'test', due_at = now() + interval '1 hour'
					WHERE id = (SELECT id FROM jobs ORDER BY id LIMIT 1) RETURNING workspace_id)
				UPDATE workspaces SET created_at = created_at - interval '1 hour' WHERE id = (SELECT workspace_id FROM begun)`)
			exec("UPDATE presets SET instances = 1")
			var about []uuid.UUID
			require.NoError(t, store.Pool.QueryRow(ctx, "SELECT "+templates+" FROM templates").Scan(&about))
			_, err := r.pass(ctx, about)
			require.NoError(t, err)
			var attempts []int
			require.NoError(t, store.Pool.QueryRow(ctx, `SELECT array_agg(j.attempt) FROM intents i
				JOIN jobs j ON j.workspace_id = i.workspace_id`).Scan(&attempts))
			require.Equal(t, []int{0}, attempts)
		})
	}
}

// drawn is a source of names of which some, by their number, are the same.
type drawn struct {
	n    int
	same []int
}

func (d *drawn) Read(b []byte) (int, error) {
	if d.n++; slices.Contains(d.same, d.n) {
		clear(b)
		return len(b), nil
	}
	return io.ReadFull(rand.Reader, b)
}

// C12: a name that is in use is made again. Where the next one is in use too, its preset waits for the next pass, and no other
// does.
func TestApply_nameInUse(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		same  []int // of the pass: two names for both presets at once, then one for each
		built int
	}{"once": {[]int{1}, 3}, "twice": {[]int{1, 3}, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			store := dbtest.Open(t)
			dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 2})
			want := func(template string, n int) {
				_, err := store.Pool.Exec(ctx, "UPDATE presets SET instances = $1 WHERE template_id = md5($2)::uuid", n, template)
				require.NoError(t, err)
			}
			r := testReconciler(store, "one")
			r.Random = &drawn{same: []int{1}}
			want("t1", 1)
			pass(ctx, t, r)
			require.Equal(t, 1, count(ctx, t, store, "t1"))

			want("t1", 2)
			want("t2", 1)
			r.Random = &drawn{same: tc.same}
			res, err := r.pass(ctx, nil)
			require.NoError(t, err)
			require.Equal(t, tc.built, count(ctx, t, store, "t1")+count(ctx, t, store, "t2"))
			require.Len(t, res.Errors, 3-tc.built)
			for _, err := range res.Errors {
				require.ErrorContains(t, err, "workspaces_name_key")
			}
			pass(ctx, t, r)
			require.Equal(t, 2, count(ctx, t, store, "t1"))
			require.Equal(t, 1, count(ctx, t, store, "t2"))
		})
	}
}

// C17: what is to be stopped is asked for once, also where it is only one.
func TestApply_oneMove(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1, Each: 2})
	_, err := store.Pool.Exec(ctx, "UPDATE presets SET standby_running = '50%'")
	require.NoError(t, err)
	r := testReconciler(store, "one")
	for _, moves := range []int{1, 0} { // of a pass
		res, err := r.pass(ctx, nil)
		require.NoError(t, err)
		require.Equal(t, moves, res.Moves)
		var kinds []string
		require.NoError(t, store.Pool.QueryRow(ctx, "SELECT array_agg(kind::text) FROM standby_moves").Scan(&kinds))
		require.Equal(t, []string{"stop"}, kinds)
	}
}

// A pass ends after its deadline, whatever it waits for, and leaves the lock to others.
func TestPass_deadline(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1})
	r := testReconciler(store, "one")
	require.Equal(t, 30*time.Second, r.deadline)
	pass(ctx, t, r)
	blocker, err := store.Pool.Begin(ctx)
	require.NoError(t, err)
	_, err = blocker.Exec(ctx, "SELECT FROM reconcile_fence FOR UPDATE")
	require.NoError(t, err)
	r.deadline = 300 * time.Millisecond
	_, late := r.pass(ctx, nil)
	require.NoError(t, blocker.Rollback(ctx))
	require.ErrorIs(t, late, context.DeadlineExceeded, "the server's own limit is 5 s")
	other := testReconciler(store, "other")
	require.Eventually(t, func() bool { // once the server has seen that the first is gone
		_, err := other.pass(ctx, nil)
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}

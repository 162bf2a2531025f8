package states_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/seal"
	"github.com/prewarm-dev/prewarm/coderd/states"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
	"github.com/prewarm-dev/prewarm/database/statesdb"
)

const eventually, poll = time.Minute, 10 * time.Millisecond

// world is a database with a job that a worker has leased.
type world struct {
	*states.Service
	t    *testing.T
	keys string // their file
	job  uuid.UUID
}

func newWorld(t *testing.T) *world {
	t.Helper()
	store := dbtest.Open(t)
	dbtest.Fleet(t, store, dbtest.FleetSize{Pools: 1, Each: 2})
	w := &world{t: t, keys: filepath.Join(t.TempDir(), "keys"), job: uuid.New()}
	w.Service = &states.Service{Store: store, Keys: seal.Open(w.keys, true, quartz.NewReal())}
	w.exec(`INSERT INTO jobs (id, workspace_id, incarnation, kind, provider, state, attempt, due_at, created_at)
		SELECT $1, id, incarnation, 'create', 'sim', 'running', 1, now(), now() FROM workspaces ORDER BY id LIMIT 1`, w.job)
	return w
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	_, err := w.Store.Pool.Exec(w.t.Context(), sql, args...)
	require.NoError(w.t, err)
}

func (w *world) versions() (n int) {
	w.t.Helper()
	require.NoError(w.t, w.Store.Pool.QueryRow(w.t.Context(), "SELECT count(*) FROM terraform_states").Scan(&n))
	return n
}

// begin begins a run of an attempt.
func (w *world) begin(attempt int32) states.Run {
	w.t.Helper()
	c, err := w.Begin(w.t.Context(), w.job, attempt)
	require.NoError(w.t, err)
	run, err := w.Authenticate(w.t.Context(), c.WorkspaceID.String(), c.Token)
	require.NoError(w.t, err)
	return run
}

func held(id string) json.RawMessage { return json.RawMessage(`{"ID":"` + id + `","Who":"me"}`) }

func state(lineage string, serial int, content string) []byte {
	return fmt.Appendf(nil, `{"lineage":%q,"serial":%d,"content":%q}`, lineage, serial, content)
}

// A worker whose attempt is over writes nothing, locks nothing and reads nothing by its token; the next finds what it wrote,
// and no lock.
func TestRun_fence(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	_, err := w.Begin(ctx, w.job, 2)
	require.ErrorIs(t, err, states.ErrOver, "no such attempt")
	c, err := w.Begin(ctx, w.job, 1)
	require.NoError(t, err)
	first, err := w.Authenticate(ctx, c.WorkspaceID.String(), c.Token)
	require.NoError(t, err)
	require.Contains(t, first.Workspace, "ready")
	require.NoError(t, w.Lock(ctx, first, held("a")))
	require.NoError(t, w.Write(ctx, first, "a", state("l", 1, "one")))

	refused := func(why string) {
		t.Helper()
		_, err := w.Begin(ctx, w.job, 1)
		require.ErrorIs(t, err, states.ErrOver, why)
		_, err = w.Authenticate(ctx, c.WorkspaceID.String(), c.Token)
		require.Error(t, err, why)
		require.ErrorIs(t, w.Write(ctx, first, "a", state("l", 2, "late")), states.ErrOver, why)
		require.ErrorIs(t, w.Lock(ctx, first, held("a")), states.ErrOver, why)
		require.ErrorIs(t, w.Unlock(ctx, first, held("a")), states.ErrOver, why)
	}
	w.exec("UPDATE jobs SET attempt = 2")
	refused("leased by another")
	second := w.begin(2)
	refused("another has begun")
	content, _, err := w.Read(ctx, second)
	require.NoError(t, err)
	require.Equal(t, state("l", 1, "one"), content)
	require.NoError(t, w.Lock(ctx, second, held("b")), "the lock of before is gone")
	require.NoError(t, w.Write(ctx, second, "b", state("l", 2, "two")))

	third := w.begin(2)
	require.ErrorIs(t, w.Write(ctx, second, "b", state("l", 3, "late")), states.ErrOver, "the same attempt has begun again")
	w.exec("UPDATE jobs SET state = 'done', finished_at = now()")
	require.ErrorIs(t, w.Lock(ctx, third, held("c")), states.ErrOver, "its job is done")
	require.Equal(t, 2, w.versions())
}

// The next run begins after a write that is under way, and so with what it stores.
func TestBegin_waitsForAWrite(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	c, err := w.Begin(ctx, w.job, 1)
	require.NoError(t, err)
	hash := sha256.Sum256([]byte(c.Token))
	begun := make(chan error, 1)
	require.NoError(t, w.Store.InTx(ctx, database.TxOptions{Label: "write"}, func(txCtx context.Context, tx pgx.Tx) error {
		_, err := statesdb.New(tx).HoldTerraformRun(txCtx, statesdb.HoldTerraformRunParams{WorkspaceID: c.WorkspaceID, TokenHash: hash[:]})
		if err != nil {
			return err
		}
		go func() { _, err := w.Begin(ctx, w.job, 1); begun <- err }()
		require.Eventually(t, func() bool {
			var waits bool
			err := w.Store.Pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
				WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%BeginTerraformRun%')`).Scan(&waits)
			return err == nil && waits
		}, eventually, poll)
		return nil
	}))
	require.NoError(t, <-begun)
}

// Only who holds the lock writes. Another finds it locked, and by whom; what is repeated succeeds.
func TestLock(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	run := w.begin(1)
	require.ErrorIs(t, w.Write(ctx, run, "", state("l", 1, "")), states.ErrNotLocked)
	for _, bad := range []string{``, `[]`, `{}`, `{"ID":1}`, `{"ID":""}`, `{"ID":"` + strings.Repeat("x", 201) + `"}`} {
		require.ErrorIs(t, w.Lock(ctx, run, json.RawMessage(bad)), states.ErrBadLock, bad)
		require.ErrorIs(t, w.Unlock(ctx, run, json.RawMessage(bad)), states.ErrBadLock, bad)
	}
	var locked *states.LockedError
	for range 2 {
		require.NoError(t, w.Lock(ctx, run, held("a")))
		require.ErrorAs(t, w.Lock(ctx, run, held("b")), &locked)
		require.JSONEq(t, string(held("a")), string(locked.Info))
		require.ErrorAs(t, w.Unlock(ctx, run, held("b")), &locked)
	}
	require.ErrorIs(t, w.Write(ctx, run, "b", state("l", 1, "")), states.ErrNotLocked)
	require.NoError(t, w.Write(ctx, run, "a", state("l", 1, "")))
	for range 2 {
		require.NoError(t, w.Unlock(ctx, run, held("a")))
	}
	require.NoError(t, w.Lock(ctx, run, held("b")))
}

// A state that was overtaken never becomes the newest, and one that comes again adds nothing.
func TestWrite_order(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	run := w.begin(1)
	_, _, err := w.Read(ctx, run)
	require.ErrorIs(t, err, states.ErrNone)
	require.NoError(t, w.Lock(ctx, run, held("a")))
	require.NoError(t, w.Write(ctx, run, "a", state("l", 4, "four")))
	require.NoError(t, w.Write(ctx, run, "a", state("l", 4, "four")))
	require.ErrorIs(t, w.Write(ctx, run, "a", state("l", 4, "other")), states.ErrOvertaken)
	require.ErrorIs(t, w.Write(ctx, run, "a", state("l", 3, "three")), states.ErrOvertaken)
	require.Equal(t, 1, w.versions())
	require.NoError(t, w.Write(ctx, run, "a", state("l", 5, "five")))
	require.ErrorIs(t, w.Write(ctx, run, "a", state("l", 4, "four")), states.ErrOvertaken)
	require.NoError(t, w.Write(ctx, run, "a", state("m", 1, "anew")))
	content, _, err := w.Read(ctx, run)
	require.NoError(t, err)
	require.Equal(t, state("m", 1, "anew"), content)
	for _, bad := range []string{``, `[]`, `{}`, `{"lineage":"l"`, `{"lineage":"l","serial":-1}`, `{"lineage":"l","serial":1e30}`} {
		require.ErrorIs(t, w.Write(ctx, run, "a", []byte(bad)), states.ErrBadState, bad)
	}
	require.ErrorIs(t, w.Write(ctx, run, "a", make([]byte, states.MaxBytes+1)), states.ErrBadState)
	require.Equal(t, 3, w.versions())
}

// After a rotation states open without the old key, and one does not open in another workspace's place.
func TestReseal(t *testing.T) {
	t.Parallel()
	w, ctx := newWorld(t), t.Context()
	run := w.begin(1)
	require.NoError(t, w.Lock(ctx, run, held("a")))
	for serial := range 2 {
		require.NoError(t, w.Write(ctx, run, "a", state("l", serial, "secret")))
	}
	old, err := os.ReadFile(w.keys)
	require.NoError(t, err)
	next := "next:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("n", 32))) + "\n"
	reseal := func() (n int) {
		t.Helper()
		first, err := w.Keys.Current()
		require.NoError(t, err)
		require.Equal(t, "next", first)
		require.NoError(t, w.Store.InTx(ctx, database.TxOptions{Label: "reseal"}, func(ctx context.Context, tx pgx.Tx) error {
			n, err = w.Reseal(ctx, tx, first)
			return err
		}))
		return n
	}
	require.NoError(t, os.WriteFile(w.keys, append([]byte(next), old...), 0o600))
	require.Equal(t, 2, reseal())
	require.NoError(t, os.WriteFile(w.keys, []byte(next), 0o600))
	require.Zero(t, reseal())
	content, _, err := w.Read(ctx, run)
	require.NoError(t, err)
	require.Equal(t, state("l", 1, "secret"), content)

	w.exec("UPDATE terraform_states SET serial = 9 WHERE version = 2")
	_, _, err = w.Read(ctx, run)
	require.ErrorContains(t, err, "altered")
}

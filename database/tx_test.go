package database_test

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

var plain = database.TxOptions{Label: "try something"}

// counter makes a table with one row, n = 0.
func counter(t *testing.T, store *database.Store) {
	t.Helper()
	_, err := store.Pool.Exec(context.Background(), "CREATE TABLE counter AS SELECT 1 AS id, 0 AS n")
	require.NoError(t, err)
}

func increment(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "UPDATE counter SET n = n + 1")
	return err
}

func count(t *testing.T, store *database.Store) (n int) {
	t.Helper()
	require.NoError(t, store.Pool.QueryRow(context.Background(), "SELECT n FROM counter").Scan(&n))
	return n
}

func TestInTx_commits(t *testing.T) {
	t.Parallel()
	ctx, store := context.Background(), dbtest.Open(t)
	counter(t, store)
	require.False(t, database.InTransaction(ctx))
	err := store.InTx(ctx, plain, func(ctx context.Context, tx pgx.Tx) error {
		require.True(t, database.InTransaction(ctx))
		require.NoError(t, database.New(tx).InsertInstallation(ctx, uuid.New()))
		return increment(ctx, tx)
	})
	require.NoError(t, err)
	require.Equal(t, 1, count(t, store))
	_, err = database.New(store).GetInstallationID(ctx)
	require.NoError(t, err, "q is of the same transaction")
}

func TestInTx_rollsBack(t *testing.T) {
	t.Parallel()
	store := dbtest.Open(t)
	counter(t, store)
	failure := errors.New("no")
	for name, fn := range map[string]func(context.Context, pgx.Tx) error{
		"error": func(ctx context.Context, tx pgx.Tx) error {
			return errors.Join(increment(ctx, tx), failure)
		},
		"panic": func(ctx context.Context, tx pgx.Tx) error {
			panic(errors.Join(increment(ctx, tx), failure))
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := func() (err error) {
				defer func() {
					if r := recover(); r != nil {
						err = r.(error)
					}
				}()
				return store.InTx(context.Background(), plain, fn)
			}()
			require.ErrorIs(t, err, failure)
			require.Zero(t, count(t, store))
			require.Zero(t, store.Pool.Stat().AcquiredConns(), "the connection is back")
		})
	}
	t.Run("context ends", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		err := store.InTx(ctx, plain, func(ctx context.Context, tx pgx.Tx) error {
			defer cancel()
			return increment(ctx, tx)
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Zero(t, count(t, store))
	})
}

func TestInTx_readOnly(t *testing.T) {
	t.Parallel()
	store := dbtest.Open(t)
	counter(t, store)
	opts := database.TxOptions{Label: "look", ReadOnly: true}
	err := store.InTx(context.Background(), opts, func(ctx context.Context, tx pgx.Tx) error {
		return increment(ctx, tx)
	})
	require.ErrorContains(t, err, "look: ")
	require.ErrorContains(t, err, "read-only transaction")
}

func TestInTx_refusesToNest(t *testing.T) {
	t.Parallel()
	store := dbtest.Open(t)
	err := store.InTx(context.Background(), plain, func(ctx context.Context, _ pgx.Tx) error {
		return store.InTx(ctx, plain, func(context.Context, pgx.Tx) error { return nil })
	})
	require.ErrorContains(t, err, "already inside of one")
}

// In REPEATABLE READ an update of a row that another transaction has changed since the snapshot fails with 40001.
func TestInTx_rerunsAfterSerializationFailure(t *testing.T) {
	t.Parallel()
	store := dbtest.Open(t)
	counter(t, store)
	runs := 0
	opts := database.TxOptions{Label: "count", Isolation: pgx.RepeatableRead}
	err := store.InTx(context.Background(), opts, func(ctx context.Context, tx pgx.Tx) error {
		runs++
		if _, err := tx.Exec(ctx, "SELECT n FROM counter"); err != nil {
			return err
		}
		if runs <= 2 {
			_, err := store.Pool.Exec(ctx, "UPDATE counter SET n = n + 10")
			require.NoError(t, err)
		}
		return increment(ctx, tx)
	})
	require.NoError(t, err)
	require.Equal(t, 3, runs)
	require.Equal(t, 21, count(t, store))
}

func TestInTx_givesUp(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	clock := quartz.NewMock(t)
	pauses := clock.Trap().NewTimer("database", "rerun")
	defer pauses.Close()
	store := dbtest.OpenURL(t, dbtest.URL(t), database.Options{Clock: clock})
	counter(t, store)
	runs, result := 0, make(chan error)
	go func() {
		opts := database.TxOptions{Label: "count", Isolation: pgx.RepeatableRead}
		result <- store.InTx(ctx, opts, func(ctx context.Context, tx pgx.Tx) error {
			runs++
			if _, err := tx.Exec(ctx, "SELECT n FROM counter"); err != nil {
				return err
			}
			if _, err := store.Pool.Exec(ctx, "UPDATE counter SET n = n + 10"); err != nil {
				return err
			}
			return increment(ctx, tx)
		})
	}()
	for _, most := range []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond} {
		pause := pauses.MustWait(ctx)
		require.GreaterOrEqual(t, pause.Duration, most/2)
		require.LessOrEqual(t, pause.Duration, most)
		pause.MustRelease(ctx)
		clock.Advance(pause.Duration).MustWait(ctx)
	}
	err := <-result
	require.ErrorIs(t, err, database.ErrSerialization)
	require.True(t, database.IsSerialization(err))
	require.Equal(t, 4, runs)
	require.Equal(t, 40, count(t, store))
}

func TestInTx_rerunsAfterDeadlock(t *testing.T) {
	t.Parallel()
	ctx, store := context.Background(), dbtest.Open(t)
	_, err := store.Pool.Exec(ctx, "CREATE TABLE pair AS SELECT id, 0 AS n FROM generate_series(1, 2) AS id")
	require.NoError(t, err)
	const update = "UPDATE pair SET n = n + 1 WHERE id = $1"

	locked := make(chan struct{}, 8) // both have their first row; not waited for again in a rerun
	both := make(chan struct{})
	go func() { <-locked; <-locked; close(both) }()
	transfer := func(first, second int) error {
		return store.InTx(ctx, plain, func(ctx context.Context, tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, update, first); err != nil {
				return err
			}
			locked <- struct{}{}
			<-both
			_, err := tx.Exec(ctx, update, second)
			return err
		})
	}
	result := make(chan error)
	go func() { result <- transfer(1, 2) }()
	require.NoError(t, transfer(2, 1))
	require.NoError(t, <-result)
	var least int
	require.NoError(t, store.Pool.QueryRow(ctx, "SELECT min(n) FROM pair").Scan(&least))
	require.Equal(t, 2, least)
}

// deafConn loses all that the server says once it is told to.
type deafConn struct {
	net.Conn
	deaf *bool
}

func (c deafConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if *c.deaf {
		_ = c.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

func TestInTx_commitUnknown(t *testing.T) {
	t.Parallel()
	ctx, direct := context.Background(), dbtest.Open(t)
	counter(t, direct)

	deaf := false
	config := direct.Pool.Config()
	config.MinIdleConns = 0
	dial := config.ConnConfig.DialFunc
	config.ConnConfig.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		return deafConn{conn, &deaf}, err
	}
	store := storeOn(t, config)

	runs := 0
	err := store.InTx(ctx, plain, func(ctx context.Context, tx pgx.Tx) error {
		runs++
		defer func() { deaf = true }() // the commit arrives, its answer does not
		return increment(ctx, tx)
	})
	require.ErrorIs(t, err, database.ErrCommitUnknown)
	require.Equal(t, 1, runs, "running it again could do it twice")
	require.Eventually(t, func() bool { return count(t, direct) == 1 }, time.Minute, time.Millisecond)
}

// A commit that the server refuses is known not to have happened, as here for a deferred constraint.
func TestInTx_commitRefused(t *testing.T) {
	t.Parallel()
	ctx, store := context.Background(), dbtest.Open(t)
	_, err := store.Pool.Exec(ctx, "CREATE TABLE late (id integer UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	require.NoError(t, err)
	err = store.InTx(ctx, plain, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "INSERT INTO late VALUES (1), (1)")
		require.NoError(t, err)
		return nil
	})
	require.True(t, database.IsUniqueViolation(err), "%v", err)
	require.NotErrorIs(t, err, database.ErrCommitUnknown)
}

// A function that swallows an error of a statement does not get its commit.
func TestInTx_swallowedError(t *testing.T) {
	t.Parallel()
	store := dbtest.Open(t)
	err := store.InTx(context.Background(), plain, func(ctx context.Context, tx pgx.Tx) error {
		_, _ = tx.Exec(ctx, "SELECT 1/0")
		return nil
	})
	require.ErrorIs(t, err, pgx.ErrTxCommitRollback)
	require.NotErrorIs(t, err, database.ErrCommitUnknown)
}

func TestErrors(t *testing.T) {
	t.Parallel()
	ctx, store := context.Background(), dbtest.Open(t)
	exec := func(statement string) error {
		_, err := store.Pool.Exec(ctx, statement)
		return err
	}
	require.NoError(t, exec("CREATE TABLE parent (id integer PRIMARY KEY, n integer CONSTRAINT positive CHECK (n > 0))"))
	require.NoError(t, exec("CREATE TABLE child (id integer CONSTRAINT of_parent REFERENCES parent)"))
	require.NoError(t, exec("INSERT INTO parent VALUES (1, 1)"))

	err := exec("INSERT INTO parent VALUES (1, 1)")
	require.True(t, database.IsUniqueViolation(err))
	require.True(t, database.IsUniqueViolation(err, "other", "parent_pkey"))
	require.False(t, database.IsUniqueViolation(err, "other"))
	require.False(t, database.IsCheckViolation(err))
	require.True(t, database.IsCheckViolation(exec("INSERT INTO parent VALUES (2, 0)"), "positive"))
	require.True(t, database.IsForeignKeyViolation(exec("INSERT INTO child VALUES (7)"), "of_parent"))
	require.False(t, database.IsConnection(err))
	require.True(t, database.NoRows(store.Pool.QueryRow(ctx, "SELECT 1 WHERE false").Scan(new(int))))

	require.True(t, database.IsConnection(exec("SELECT pg_terminate_backend(pg_backend_pid())")))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = store.Pool.Exec(ended, "SELECT 1")
	require.False(t, database.IsConnection(err), "%v", err)
	require.False(t, database.IsConnection(nil))
	require.True(t, database.IsConnection(&pgconn.PgError{Code: "57P03"}))
	require.True(t, database.IsConnection(&pgconn.PgError{Code: "53100"}), "its disk is full")
	require.False(t, database.IsConnection(&pgconn.PgError{Code: "54000"}), "a limit of the program")
	require.True(t, database.IsDeadlock(&pgconn.PgError{Code: "40P01"}))
}

func storeOn(t *testing.T, config *pgxpool.Config) *database.Store {
	t.Helper()
	store, err := database.NewStore(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(store.Close)
	return store
}

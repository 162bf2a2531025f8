package database

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/wait"
)

const (
	maxReruns       = 3
	rerunBackoff    = 5 * time.Millisecond // doubled at each rerun, then jittered between half and all of it
	commitTimeout   = 10 * time.Second
	rollbackTimeout = 5 * time.Second
)

// TxOptions of one InTx.
type TxOptions struct {
	// Label says what the transaction is for, as a verb and a noun: "finish job". Errors begin with it.
	Label     string
	Isolation pgx.TxIsoLevel // empty: READ COMMITTED
	ReadOnly  bool
}

// InTx runs fn in a transaction and commits if fn returns nil. When PostgreSQL reports a serialization failure or a
// deadlock, fn is run again from the start, at most 3 times; then the error is ErrSerialization. fn uses the context it
// is given, and opens the statements of its group on tx, as in claimdb.New(tx). A panic in fn rolls back and goes on.
//
// A context that ends before the commit rolls back. The commit itself is not interrupted by it, since that would only
// hide its outcome; ErrCommitUnknown is returned when the connection breaks right then.
func (s *Store) InTx(ctx context.Context, opts TxOptions, fn func(ctx context.Context, tx pgx.Tx) error) error {
	if InTransaction(ctx) {
		return xerrors.Errorf("%s: begin transaction: already inside of one", opts.Label)
	}
	for rerun := 0; ; rerun++ {
		err := s.runTx(ctx, opts, fn)
		switch {
		case err == nil:
			return nil
		case !isLost(err):
			return xerrors.Errorf("%s: %w", opts.Label, err)
		case rerun == maxReruns:
			return xerrors.Errorf("%s: %w", opts.Label, outcome{ErrSerialization, err})
		}
		if err := s.pause(ctx, rerun); err != nil {
			return xerrors.Errorf("%s: %w", opts.Label, err)
		}
	}
}

func (s *Store) runTx(ctx context.Context, opts TxOptions, fn func(ctx context.Context, tx pgx.Tx) error) error {
	access := pgx.ReadWrite
	if opts.ReadOnly {
		access = pgx.ReadOnly
	}
	tx, err := s.conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: opts.Isolation, AccessMode: access})
	if err != nil {
		return xerrors.Errorf("begin transaction: %w", err)
	}
	// Also on a panic. After a commit it does nothing; when it fails the connection is closed, and so is the transaction.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
		defer cancel()
		_ = tx.Rollback(ctx)
	}()

	if err := fn(markTransaction(ctx), tx); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return commit(ctx, tx)
}

func commit(ctx context.Context, tx pgx.Tx) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	err := tx.Commit(ctx)
	if err == nil {
		return nil
	}
	if commitDecided(err) {
		return xerrors.Errorf("commit transaction: %w", err)
	}
	return xerrors.Errorf("commit transaction: %w", outcome{ErrCommitUnknown, err})
}

// commitDecided says whether a failed commit is known to have done nothing: PostgreSQL refused it with an ordinary
// error, or turned it into a rollback. A FATAL error can also come after the commit took effect. pgconn.SafeToRetry is
// of no use here: pgx 5.12 also says it of a connection that broke after the commit was sent.
func commitDecided(err error) bool {
	if pg, is := errors.AsType[*pgconn.PgError](err); is {
		return pg.SeverityUnlocalized == "ERROR"
	}
	return errors.Is(err, pgx.ErrTxCommitRollback) || errors.Is(err, pgx.ErrTxClosed)
}

// pause waits before a rerun, so that two transactions that collided do not collide again.
func (s *Store) pause(ctx context.Context, rerun int) error {
	most := rerunBackoff << rerun
	return wait.For(ctx, s.clock, most/2+s.jitter(most/2), "database", "rerun")
}

type transactionMark struct{}

func markTransaction(ctx context.Context) context.Context {
	return context.WithValue(ctx, transactionMark{}, true)
}

// InTransaction says whether ctx comes from InTx. Whoever calls a provider refuses such a context (I8).
func InTransaction(ctx context.Context) bool { return ctx.Value(transactionMark{}) != nil }

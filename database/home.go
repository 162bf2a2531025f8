package database

import (
	"context"
	"errors"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"
)

// ErrRestored: the database was put back from a dump, or copied, and nobody has said yet what that means for what went on
// since.
var ErrRestored = errors.New("the database was put back from a backup, or is a copy")

// EnterHome says whether the database is still the one that replicas ran on last, and draws it a new home, so that any
// dump made before now can be told from it. guarded is false where that can't be known: the role does not own the
// database, or may not know the cluster's identifier.
//
// What it can't see: a cluster that was put back as a whole, by copying its files or from archived WAL, is the same in
// every respect.
func (s *Store) EnterHome(ctx context.Context) (guarded bool, err error) {
	err = s.InTx(ctx, TxOptions{Label: "enter home"}, func(ctx context.Context, tx pgx.Tx) error {
		q := New(tx)
		if err := q.LockHome(ctx); err != nil {
			return xerrors.Errorf("lock home: %w", err)
		}
		home, err := q.Home(ctx)
		if err != nil {
			return xerrors.Errorf("read home: %w", err)
		}
		_, cluster, _ := strings.Cut(home.Carried, "/")
		if home.Carried != "" && (home.Carried != home.Here || cluster != home.Cluster) {
			return ErrRestored
		}
		return q.moveHome(ctx, home.Cluster)
	})
	if code(err) == codeInsufficientPrivilege {
		return false, nil
	}
	return err == nil, err
}

// SettleHome makes this database the one to run on, wherever it comes from. It belongs into the transaction that sees to
// what a restore leaves behind.
func (q *Queries) SettleHome(ctx context.Context) error {
	if err := q.LockHome(ctx); err != nil {
		return xerrors.Errorf("lock home: %w", err)
	}
	home, err := q.Home(ctx)
	if err != nil {
		return xerrors.Errorf("read home: %w", err)
	}
	return q.moveHome(ctx, home.Cluster)
}

func (q *Queries) moveHome(ctx context.Context, cluster string) error {
	if err := q.NextHome(ctx, uuid.NewString()+"/"+cluster); err != nil {
		return xerrors.Errorf("draw home: %w", err)
	}
	if err := q.MoveHome(ctx); err != nil {
		return xerrors.Errorf("write home: %w", err)
	}
	return nil
}

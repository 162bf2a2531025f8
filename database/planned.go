package database

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Planned has each statement planned for the parameters at hand, whenever it runs. It is for statements with conditions that
// may be left out: the one plan for any parameters, which PostgreSQL may go on with, expects that all of them hold, and so few
// rows that sorting them looks cheap. To plan takes some milliseconds, so it is for pages and not for claims.
func Planned(db DBTX) DBTX { return planned{db} }

type planned struct{ db DBTX }

func (p planned) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return p.db.Exec(ctx, sql, unnamed(args)...)
}

func (p planned) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return p.db.Query(ctx, sql, unnamed(args)...)
}

func (p planned) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return p.db.QueryRow(ctx, sql, unnamed(args)...)
}

// unnamed makes pgx send a statement that is not prepared under a name.
func unnamed(args []any) []any {
	return slices.Insert(slices.Clone(args), 0, any(pgx.QueryExecModeCacheDescribe))
}

package database

import (
	"context"

	"github.com/coder/quartz"
	"github.com/jackc/pgx/v5/pgxpool"
)

// NewStore makes a store on a pool configured by the test.
func NewStore(ctx context.Context, config *pgxpool.Config) (*Store, error) {
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	return &Store{Queries: New(pool), Pool: pool, clock: quartz.NewReal()}, nil
}

// MigrateTo applies other migrations than ours.
var MigrateTo = migrate

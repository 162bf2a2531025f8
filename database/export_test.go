package database

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/coder/quartz"
	"github.com/jackc/pgx/v5/pgxpool"
)

// NewStore makes a store on a pool configured by the test.
func NewStore(ctx context.Context, config *pgxpool.Config) (*Store, error) {
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	store := Over(pool, quartz.NewReal(), rand.N[time.Duration])
	store.Pool = pool
	return store, nil
}

// MigrateTo applies other migrations than ours.
var MigrateTo = migrate

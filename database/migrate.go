package database

import (
	"context"
	"embed"
	"errors"
	"io/fs"
	"time"

	"github.com/coder/quartz"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/wait"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// How long a replica waits for another one that is migrating: 300 tries, a second apart.
const (
	migrationLockPeriodSeconds = 1
	migrationLockTries         = 300
)

// A migration that waits for a lock on a table stands before everybody who comes after it, so it waits for that long
// only, lets them pass, and tries again after a pause: however long some transaction stays open, claims go on. So it does
// when PostgreSQL ends it since it and a transaction of a running replica, which took the tables in another order, wait for
// one another.
const (
	migrationTableLock  = 2 * time.Second
	migrationTablePause = time.Second
	migrationTableTries = 100
)

// Migrations is the folder of SQL files that Migrate applies.
func Migrations() fs.FS {
	sub, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		panic(err) // the folder is part of the binary
	}
	return sub
}

// Migrate brings the schema up to this binary's migrations. Replicas that start at once wait for one another.
//
// A schema that is newer stays as it is and is no error: during an upgrade the old binary runs on the new schema (each
// migration keeps the binary before it working). A migration missing below the newest applied one is an error, since
// then the schema is one that nobody has tested.
func Migrate(ctx context.Context, url string) error {
	return migrate(ctx, url, Migrations(), quartz.NewReal())
}

func migrate(ctx context.Context, url string, migrations fs.FS, clock quartz.Clock) (err error) {
	parsed, err := pgxpool.ParseConfig(url) // which keeps settings of the pool from PostgreSQL
	if err != nil {
		return xerrors.Errorf("parse database URL: %w", err)
	}
	config := parsed.ConnConfig
	ConfigureSession(config, "migrate")
	setDefault(config.RuntimeParams, "lock_timeout", milliseconds(migrationTableLock))

	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(migrationLockPeriodSeconds, migrationLockTries))
	if err != nil {
		return xerrors.Errorf("create migration lock: %w", err)
	}
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	// Goose would otherwise say "context deadline exceeded" after minutes, whatever is wrong with the database.
	if err := db.PingContext(ctx); err != nil {
		return xerrors.Errorf("connect to database: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations,
		goose.WithSessionLocker(locker), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return xerrors.Errorf("read migrations: %w", err)
	}
	for try := 1; ; try++ {
		_, err := provider.Up(ctx)
		if err == nil {
			return nil
		}
		if !IsLockTimeout(err) && !IsDeadlock(err) || try == migrationTableTries {
			return xerrors.Errorf("migrate schema: %w", err)
		}
		if err := wait.For(ctx, clock, migrationTablePause, "database", "migrate"); err != nil {
			return xerrors.Errorf("migrate schema: %w", err)
		}
	}
}

package coderd

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/wait"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/embedded"
)

const (
	// connectFor is how long the start waits for a database that is away, asking again each connectEvery.
	connectFor   = 30 * time.Second
	connectEvery = time.Second
)

// db is the database, and the cluster it is in if that is ours.
type db struct {
	store   *database.Store
	cluster *embedded.Cluster
}

func openDatabase(ctx context.Context, opts Options, clock quartz.Clock, log slog.Logger) (_ *db, err error) {
	d := &db{}
	url := opts.PostgresURL
	if url == "" {
		d.cluster, err = embedded.Start(ctx, embedded.Options{DataDir: opts.DataDir, Logger: log.Named("postgres"), Clock: clock})
		if err != nil {
			return nil, xerrors.Errorf("start PostgreSQL: %w", err)
		}
		url = d.cluster.URL()
	}
	defer func() {
		if err != nil {
			d.close(log)
		}
	}()
	d.store, err = database.Open(ctx, url, database.Options{Replica: opts.Replica, Clock: clock, Tracer: opts.hooks().Tracer})
	if err != nil {
		return nil, err
	}
	if err := awaitDatabase(ctx, d.store, clock, log); err != nil {
		return nil, err
	}
	if err := database.Migrate(ctx, url); err != nil {
		return nil, xerrors.Errorf("migrate the database: %w", err)
	}
	return d, nil
}

// enterHome refuses a database that was put back from a backup, until somebody ran `prewarm admin after-restore`.
func (d *db) enterHome(ctx context.Context, log slog.Logger) error {
	guarded, err := d.store.EnterHome(ctx)
	switch {
	case errors.Is(err, database.ErrRestored):
		return xerrors.Errorf("%w: what was claimed after the backup looks unclaimed in it. Stop all replicas, run "+
			"`prewarm admin after-restore` on it, and start again (docs/deployment.md)", err)
	case err != nil:
		return xerrors.Errorf("find out where the database is at home: %w", err)
	case !guarded:
		log.Warn(ctx, "a restored backup would not be noticed. For that the role must own the database, and a superuser must "+
			"GRANT SET ON PARAMETER prewarm.home to it (PostgreSQL 15 or newer)")
	}
	return nil
}

// awaitDatabase waits for a database that is away, for a while, and tells why. What waiting can't mend, such as a wrong
// password, ends it at once.
func awaitDatabase(ctx context.Context, store *database.Store, clock quartz.Clock, log slog.Logger) error {
	deadline := clock.Now("database", "await").Add(connectFor)
	for {
		err := store.Pool.Ping(ctx)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !database.IsConnection(err) || !clock.Now("database", "await").Before(deadline) {
			return xerrors.Errorf("connect to the database (is it running, and is --postgres-url right?): %w", err)
		}
		log.Warn(ctx, "the database does not answer; asking again", slog.F("for", connectFor.String()), slog.Error(err))
		_ = wait.For(ctx, clock, connectEvery, "database", "await")
	}
}

func (d *db) close(log slog.Logger) {
	if d.store != nil {
		d.store.Close()
	}
	if d.cluster != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := d.cluster.Stop(ctx); err != nil {
			log.Error(ctx, "stop PostgreSQL", slog.Error(err))
		}
	}
}

// ensureDataDir makes the data directory, and refuses one that belongs to somebody else.
func ensureDataDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return xerrors.Errorf("make data directory (--data-dir takes another): %w", err)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return xerrors.Errorf("look at data directory: %w", err)
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && int(stat.Uid) != os.Geteuid() {
		return xerrors.Errorf("data directory %s belongs to user id %d, and this server runs as %d: run it as that user, or "+
			"choose another directory with --data-dir", dir, stat.Uid, os.Geteuid())
	}
	return nil
}

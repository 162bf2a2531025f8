package coderd

import (
	"context"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/humanlog"
	"github.com/prewarm-dev/prewarm/coderd/wait"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/serverdb"
)

// Restored is what AfterRestore did.
type Restored struct {
	Quarantined []string `json:"quarantined"` // names of workspaces that may have been claimed since the backup
	Missed      int64    `json:"missed"`      // claims that waited at the time of the backup
	Tokens      int64    `json:"tokens"`      // that are good no more
}

const (
	restoredReason = "restored from a backup: it may have been claimed since"
	aloneTries     = 20
	aloneEvery     = 250 * time.Millisecond
)

// AfterRestore makes a database that was put back from a backup fit to run on, all or nothing, while no replica runs.
//
// The world went on after the backup. What looks unclaimed may be somebody's by now, so all of it is quarantined: neither
// handed out nor deleted until a person looked. What was made after the backup has no row at all, and is left alone and
// shown by inventories: it was made at no time that this database knows of. All tokens of people end, since one that was
// revoked after the backup would be good again. With nothingLost, for a database that was moved while nothing ran, only its
// new place is noted.
func AfterRestore(ctx context.Context, opts Options, nothingLost bool) (Restored, error) {
	log := slog.Make(humanlog.Sink(opts.Stderr))
	if err := ensureDataDir(opts.DataDir); opts.PostgresURL == "" && err != nil {
		return Restored{}, err
	}
	opts.Replica = "after-restore"
	clock := quartz.NewReal()
	db, err := openDatabase(ctx, opts, clock, log)
	if err != nil {
		return Restored{}, err
	}
	defer db.close(log)
	if err := awaitAlone(ctx, db.store, clock); err != nil {
		return Restored{}, err
	}
	var done Restored
	err = db.store.InTx(ctx, database.TxOptions{Label: "see to a restored database"},
		func(ctx context.Context, tx pgx.Tx) (err error) {
			done = Restored{Quarantined: []string{}}
			reason := "moved; nothing was lost"
			if !nothingLost {
				reason = restoredReason
				if done, err = forget(ctx, tx, workspaces.New(db.store, uuid.New, opts.Replica)); err != nil {
					return err
				}
			}
			record := serverdb.RecordRestoreParams{ActorID: workspaces.Prewarm, Reason: reason, Source: opts.Replica}
			if err := serverdb.New(tx).RecordRestore(ctx, record); err != nil {
				return xerrors.Errorf("record the restore: %w", err)
			}
			return database.New(tx).SettleHome(ctx)
		})
	return done, err
}

// awaitAlone refuses a database on which replicas run; those that just ended may take a moment to hang up.
func awaitAlone(ctx context.Context, store *database.Store, clock quartz.Clock) error {
	for try := 1; ; try++ {
		others, err := serverdb.New(store).RunningReplicas(ctx)
		switch {
		case err != nil:
			return xerrors.Errorf("look for replicas: %w", err)
		case others == 0:
			return nil
		case try == aloneTries:
			return xerrors.New("replicas are connected to this database: stop them all first")
		}
		if err := wait.For(ctx, clock, aloneEvery, "coderd", "alone"); err != nil {
			return err
		}
	}
}

func forget(ctx context.Context, db database.DBTX, writer *workspaces.Writer) (done Restored, err error) {
	q := serverdb.New(db)
	if done.Quarantined, err = writer.Restored(ctx, db, restoredReason); err != nil {
		return done, err
	}
	if done.Missed, err = q.MissRestored(ctx, "the database was restored from a backup"); err != nil {
		return done, xerrors.Errorf("end waiting claims: %w", err)
	}
	if done.Tokens, err = q.ForgetTokens(ctx); err != nil {
		return done, xerrors.Errorf("end tokens: %w", err)
	}
	if _, err = q.ForgetReplicas(ctx); err != nil {
		return done, xerrors.Errorf("forget replicas: %w", err)
	}
	if err = q.ForgetInventories(ctx); err != nil {
		return done, xerrors.Errorf("forget inventories: %w", err)
	}
	return done, nil
}

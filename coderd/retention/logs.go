package retention

import (
	"context"
	"errors"
	"time"

	"cdr.dev/slog"
	"github.com/jackc/pgx/v5"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/retentiondb"
)

const (
	keepHistory = 30 * day
	keepAudit   = 365 * day
	// logBatch is how many rows of history are looked at in one step, of a partition that is to be dropped.
	logBatch = 100_000
)

// logs are the tables that are partitioned by time, and how long a partition is: what is kept too long is at most one.
var logs = []log{{"workspace_history", "week", keepHistory}, {"audit_log", "month", keepAudit}}

type log struct {
	name, unit string
	keep       time.Duration
}

// keepLogs keeps all logs. One that cannot be kept, as where the role of the database does not own its tables, is in no other's way.
func (k *Keeper) keepLogs(ctx context.Context) error {
	var failed error
	for _, l := range logs {
		failed = errors.Join(failed, k.keep(ctx, l))
	}
	return failed
}

// keep makes the partitions of a log ahead, and drops those that are old, a step at a time. A step that cannot have its lock
// is left to the next time: until then rows go into the partition without an end, and what is old stays.
func (k *Keeper) keep(ctx context.Context, l log) error {
	for changed := false; ; changed = true {
		var step string
		err := k.Store.InTx(ctx, database.TxOptions{Label: "keep " + l.name}, func(ctx context.Context, tx pgx.Tx) (err error) {
			q := retentiondb.New(tx)
			if err := q.AllowLongStep(ctx); err != nil {
				return err
			}
			if step, err = q.KeepLog(ctx, retentiondb.KeepLogParams{
				Log: l.name, Unit: l.unit, KeepS: l.keep.Seconds(), Batch: logBatch,
			}); err != nil || step != "" || !changed {
				return err
			}
			return q.AnalyzeLog(ctx, l.name)
		})
		switch {
		case database.IsLockTimeout(err), errors.Is(err, database.ErrSerialization):
			k.Log.Info(ctx, "partitions of a log wait for a lock", slog.F("log", l.name))
			return nil
		case err != nil || step == "":
			return err
		}
		k.Log.Info(ctx, "partitions of a log changed", slog.F("log", l.name), slog.F("step", step))
	}
}

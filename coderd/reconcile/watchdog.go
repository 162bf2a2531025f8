package reconcile

import (
	"context"
	"errors"
	"time"

	"cdr.dev/slog"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database/reconciledb"
)

const (
	// frozenAfter is how long one transaction may hold the pass's lock before another replica ends its backend. The
	// server's own timeouts do not bound a holder that was stopped while it received a result.
	frozenAfter = 10 * time.Second
	// watchEvery spaces the looks at the holder while the lock is busy.
	watchEvery = time.Second
)

// holder is who was seen holding the lock: the same backend in the same transaction is the same pass.
type holder struct {
	pid   int32
	xact  time.Time
	since time.Time // this process's clock, when it was first seen
	seen  time.Time // when it was last looked for
}

// watchHolder is called while the lock is busy. It ends the backend that has held it for too long, so that a frozen
// replica stops the pool for seconds and not for ever.
func (r *Reconciler) watchHolder(ctx context.Context) error {
	now := r.Clock.Now("reconcile", "watch")
	if now.Sub(r.holder.seen) < watchEvery {
		return nil
	}
	row, err := reconciledb.New(r.Store).PassLockHolder(ctx)
	if errors.Is(err, pgx.ErrNoRows) {
		r.holder = holder{seen: now}
		return nil
	}
	if err != nil {
		return xerrors.Errorf("read lock holder: %w", err)
	}
	if row.Pid != r.holder.pid || !row.XactStart.Equal(r.holder.xact) {
		r.holder = holder{pid: row.Pid, xact: row.XactStart, since: now, seen: now}
		return nil
	}
	r.holder.seen = now
	if now.Sub(r.holder.since) < frozenAfter {
		return nil
	}
	ended, err := reconciledb.New(r.Store).EndPassLockHolder(ctx, reconciledb.EndPassLockHolderParams{
		Pid: r.holder.pid, XactStart: r.holder.xact,
	})
	if err != nil {
		return xerrors.Errorf("end lock holder: %w", err)
	}
	r.Log.Warn(ctx, "ended a pass that held the lock for too long",
		slog.F("pid", r.holder.pid), slog.F("held_by", row.ApplicationName), slog.F("ended", ended))
	r.metrics.frozen.Inc()
	r.holder = holder{seen: now}
	return nil
}

package lifecycle

import (
	"context"
	"errors"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lease"
	"github.com/prewarm-dev/prewarm/coderd/tracing"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/lifecycledb"
)

// intentBatch is how many intents, and how many moves, are read at a time.
const intentBatch = 50

// carryOutIntents drains and cancels what passes want gone, and stops and starts what they want in another tier, until ctx
// ends.
func (w *Worker) carryOutIntents(ctx context.Context) {
	lease.Loop{
		Clock: w.Clock, Log: w.log, What: "carry out intents", Tags: []string{"lifecycle", "intents"}, Wake: w.intents,
		Pause: func() time.Duration { return poll },
	}.Run(ctx, func(ctx context.Context) error {
		for {
			n, err := w.someIntents(ctx)
			moves, movesErr := w.someMoves(ctx)
			if err = errors.Join(err, movesErr); err != nil || max(n, moves) < intentBatch {
				return err
			}
		}
	})
}

// someIntents carries out the oldest ones and returns how many there were. One that fails stops no other.
func (w *Worker) someIntents(ctx context.Context) (done int, err error) {
	due, err := lifecycledb.New(w.Store).DueIntents(ctx, intentBatch)
	if err != nil {
		return 0, xerrors.Errorf("read intents: %w", err)
	}
	for _, in := range due {
		at := lifecycledb.LockIntentParams{WorkspaceID: in.WorkspaceID, Incarnation: in.Incarnation}
		done += carryOut(ctx, w, "carry out intent", "carry out an intent", in.WorkspaceID, at, (*lifecycledb.Queries).LockIntent,
			lifecycledb.DeleteIntentParams(at), (*lifecycledb.Queries).DeleteIntent,
			func(ctx context.Context, db database.DBTX) error {
				err := workspaces.ErrLost
				if in.Kind == database.IntentKindCancel {
					_, err = w.Writer.Cancel(ctx, db, in.WorkspaceID, in.Incarnation, in.Reason)
				}
				if errors.Is(err, workspaces.ErrLost) { // to be drained, or created before it could be cancelled
					_, err = w.Writer.Drain(ctx, db, in.WorkspaceID, in.Incarnation, in.Reason)
				}
				return err
			})
	}
	if done > 0 {
		w.retires.wake.Ring()
	}
	return done, nil
}

// someMoves does the same for moves between the tiers.
func (w *Worker) someMoves(ctx context.Context) (done int, err error) {
	due, err := lifecycledb.New(w.Store).DueMoves(ctx, intentBatch)
	if err != nil {
		return 0, xerrors.Errorf("read moves: %w", err)
	}
	for _, m := range due {
		at := lifecycledb.LockMoveParams{WorkspaceID: m.WorkspaceID, Incarnation: m.Incarnation}
		to := w.Writer.Start
		if m.Kind == database.StandbyMoveKindStop {
			to = w.Writer.Stop
		}
		done += carryOut(ctx, w, "carry out move", "carry out a move", m.WorkspaceID, at, (*lifecycledb.Queries).LockMove,
			lifecycledb.DeleteMoveParams(at), (*lifecycledb.Queries).DeleteMove,
			func(ctx context.Context, db database.DBTX) error {
				_, err := to(ctx, db, m.WorkspaceID, m.Incarnation, m.Reason)
				return err
			})
	}
	if done > 0 {
		w.starts.wake.Ring()
		w.retires.wake.Ring()
	}
	return done, nil
}

// carryOut does what a pass wrote down, and returns 1 unless that failed. An intent or a move whose workspace was claimed, or
// has already gone, is dropped: claims win (I2).
func carryOut[L, D any](ctx context.Context, w *Worker, label, failed string, id uuid.UUID,
	at L, lock func(*lifecycledb.Queries, context.Context, L) ([]uuid.UUID, error), // none: another replica is at it
	of D, drop func(*lifecycledb.Queries, context.Context, D) error,
	move func(context.Context, database.DBTX) error,
) int {
	err := w.Store.InTx(ctx, database.TxOptions{Label: label}, func(ctx context.Context, tx pgx.Tx) error {
		mine, err := lock(lifecycledb.New(tx), ctx, at)
		if err != nil || len(mine) == 0 {
			return err
		}
		if err := tracing.Carry(ctx, tx); err != nil {
			return err
		}
		if err := move(ctx, tx); err != nil && !errors.Is(err, workspaces.ErrLost) {
			return err
		}
		return drop(lifecycledb.New(tx), ctx, of)
	})
	if err != nil {
		w.log.Warn(ctx, failed, slog.F("workspace_id", id), slog.Error(err))
		return 0
	}
	return 1
}

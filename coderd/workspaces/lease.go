package workspaces

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// ErrRenewed: the lease is not over (any more).
var ErrRenewed = errors.New("the lease was renewed")

// guard says, in the transaction of a transition, whether it is still to be made.
type guard func(ctx context.Context, db database.DBTX, cur viewsdb.WorkspaceStateRow) error

// EndLease: claimed -> draining or starting, as Release does it, because the lease of its claim is over. ErrRenewed if it is
// not: the renewal came first.
func (w *Writer) EndLease(ctx context.Context, id uuid.UUID, incarnation int32, reason string) (Moved, error) {
	by := w.System(reason)
	by.Incarnation = incarnation
	return w.release(ctx, by, id, leaseOver)
}

// ErrToldOf: another request was answered with the claim.
var ErrToldOf = errors.New("another request was answered with the claim")

// TakeBack: claimed -> draining or starting, as Release does it, because the only request that may have been answered with the claim
// is gone. ErrToldOf if another was, or may have been. The claim's key is free then.
func (w *Writer) TakeBack(ctx context.Context, by Actor, claim, id uuid.UUID) (Moved, error) {
	return w.release(ctx, by, id, func(ctx context.Context, db database.DBTX, cur viewsdb.WorkspaceStateRow) error {
		q := workspacesdb.New(db)
		_, err := q.LockClaimed(ctx, workspacesdb.LockClaimedParams{WorkspaceID: cur.ID, Incarnation: cur.Incarnation})
		if err != nil {
			return lost("lock claimed workspace", err)
		}
		n, err := q.TakeBack(ctx, claim)
		if err != nil {
			return xerrors.Errorf("free the claim's key: %w", err)
		}
		if n == 0 {
			return ErrToldOf
		}
		return nil
	})
}

// leaseOver locks the workspace and then the claim, in the order of every release.
func leaseOver(ctx context.Context, db database.DBTX, cur viewsdb.WorkspaceStateRow) error {
	q := workspacesdb.New(db)
	_, err := q.LockClaimed(ctx, workspacesdb.LockClaimedParams{WorkspaceID: cur.ID, Incarnation: cur.Incarnation})
	if err != nil {
		return lost("lock claimed workspace", err)
	}
	_, err = q.LeaseOver(ctx, workspacesdb.LeaseOverParams{WorkspaceID: cur.ID, Incarnation: cur.Incarnation})
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrRenewed
	}
	if err != nil {
		return xerrors.Errorf("look at lease: %w", err)
	}
	return nil
}

// guarded runs a transition after its guard, in one transaction; without one as it is.
func (w *Writer) guarded(ctx context.Context, still guard, cur viewsdb.WorkspaceStateRow,
	move func(ctx context.Context, db database.DBTX) error,
) error {
	if still == nil {
		return w.traced(ctx, move)
	}
	opts := database.TxOptions{Label: "end claim"}
	return w.store.InTx(ctx, opts, func(ctx context.Context, tx pgx.Tx) error {
		if err := still(ctx, tx, cur); err != nil {
			return err
		}
		return move(ctx, tx)
	})
}

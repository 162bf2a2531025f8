package workspaces

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/prewarm-dev/prewarm/coderd/tracing"
	"github.com/prewarm-dev/prewarm/database"
)

// traced runs one statement that orders work for a person, so that its jobs are in that request's trace. Without a trace
// the statement is its own transaction.
func (w *Writer) traced(ctx context.Context, fn func(ctx context.Context, db database.DBTX) error) error {
	if tracing.Traceparent(ctx) == "" {
		return fn(ctx, w.store)
	}
	return w.store.InTx(ctx, database.TxOptions{Label: "order work"}, func(ctx context.Context, tx pgx.Tx) error {
		if err := tracing.Carry(ctx, tx); err != nil {
			return err
		}
		return fn(ctx, tx)
	})
}

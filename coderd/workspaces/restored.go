package workspaces

import (
	"context"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// Restored: provisioning, starting, ready or standby -> quarantined, for all there are, in a database that was put back
// from a backup: any of them may have been claimed since. It returns their names.
func (w *Writer) Restored(ctx context.Context, db database.DBTX, reason string) ([]string, error) {
	names, err := workspacesdb.New(db).QuarantineRestored(ctx, workspacesdb.QuarantineRestoredParams{
		Reason: reason, ActorID: Prewarm, Source: w.replica,
	})
	if err != nil {
		return nil, xerrors.Errorf("quarantine what was unclaimed: %w", err)
	}
	return names, nil
}

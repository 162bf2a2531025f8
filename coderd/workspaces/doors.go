package workspaces

import (
	"context"
	"time"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// What other rooms do to a workspace that is no transition. They run it within a transaction of theirs, or alone.

type (
	// RenewLeaseParams names the claim, and says how long its lease is from now on.
	RenewLeaseParams = workspacesdb.RenewLeaseParams
	// RecordActParams names the workspace, and says who did what to it, and why.
	RecordActParams = workspacesdb.RecordWorkspaceActParams
)

// RenewLease makes the lease of a claim begin anew, and returns its end. No row: the claim is not bound, or has no lease.
func RenewLease(ctx context.Context, db database.DBTX, arg RenewLeaseParams) (*time.Time, error) {
	return workspacesdb.New(db).RenewLease(ctx, arg)
}

// RecordAct writes an act on a workspace into the audit log.
func RecordAct(ctx context.Context, db database.DBTX, arg RecordActParams) error {
	return workspacesdb.New(db).RecordWorkspaceAct(ctx, arg)
}

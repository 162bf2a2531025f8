package workspaces

import (
	"context"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// Stop: ready -> standby, as a move of a pass says; the stop job follows. ErrLost means a claim or a drain came first.
func (w *Writer) Stop(ctx context.Context, db database.DBTX, id uuid.UUID, incarnation int32, reason string) (Moved, error) {
	row, err := workspacesdb.New(db).WorkspaceStopping(ctx, workspacesdb.WorkspaceStoppingParams{
		WorkspaceID: id, Incarnation: incarnation, NextJobID: w.newID(), Priority: PriorityPrebuild, ActorID: Prewarm,
		Reason: reason,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("stop workspace", err)
}

// Start: standby -> starting, as a move of a pass says; the start job follows. ErrLost as with Stop.
func (w *Writer) Start(ctx context.Context, db database.DBTX, id uuid.UUID, incarnation int32, reason string) (Moved, error) {
	row, err := workspacesdb.New(db).WorkspaceStarting(ctx, workspacesdb.WorkspaceStartingParams{
		WorkspaceID: id, Incarnation: incarnation, NextJobID: w.newID(), Priority: PriorityPrebuild, ActorID: Prewarm,
		Reason: reason,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("start workspace", err)
}

// Stopped ends a stop job: the workspace was in standby before, and is so now in fact. ErrLost if the job was cancelled,
// by a claim for example.
func (w *Writer) Stopped(ctx context.Context, l Lease) error {
	n, err := workspacesdb.New(w.store).JobStopped(ctx, workspacesdb.JobStoppedParams{JobID: l.JobID, Attempt: l.Attempt})
	if err != nil {
		return xerrors.Errorf("record stop: %w", err)
	}
	if n == 0 {
		return ErrLost
	}
	return nil
}

// ClaimStandby: standby -> claimed for one claim, with a start job that is first in line. ErrLost if there is none.
func (w *Writer) ClaimStandby(ctx context.Context, c ClaimFor) (database.Workspace, error) {
	row, err := workspacesdb.New(w.store).ClaimStandby(ctx, workspacesdb.ClaimStandbyParams{
		ClaimID: c.ClaimID, PresetID: c.PresetID, UserID: c.UserID, IdempotencyKey: database.OrNull(c.Key), Mode: c.Mode,
		Source: c.Source, LeaseS: database.OrNull(c.LeaseS), NextJobID: w.newID(), Priority: PriorityPerson,
	})
	if err == nil {
		w.claimed(row.ID)
	}
	return database.Workspace(row), lost("claim standby workspace", err)
}

// Started: starting -> starting or claimed -> claimed, because it runs again. The probe job follows.
func (w *Writer) Started(ctx context.Context, l Lease) error {
	_, err := workspacesdb.New(w.store).WorkspaceStarted(ctx, workspacesdb.WorkspaceStartedParams{
		WorkspaceID: l.WorkspaceID, Incarnation: l.Incarnation, JobID: l.JobID, Attempt: l.Attempt,
		NextJobID: w.newID(), ActorID: Prewarm,
	})
	return lost("record start", err)
}

// ClaimStarted: claimed -> claimed, because what was claimed out of standby can be used. It returns how long after its
// claim that was, in seconds.
func (w *Writer) ClaimStarted(ctx context.Context, l Lease, f Facts) (tookS float64, err error) {
	row, err := workspacesdb.New(w.store).ClaimStarted(ctx, workspacesdb.ClaimStartedParams{
		WorkspaceID: l.WorkspaceID, Incarnation: l.Incarnation, JobID: l.JobID, Attempt: l.Attempt,
		Addresses: f.Addresses, Environment: f.Environment, OsName: f.OSName, OsVersion: f.OSVersion, ActorID: Prewarm,
	})
	return row.TookS, lost("record start for claim", err)
}

// ClaimNotStarted: claimed -> claimed with a fault, because it could not be started. It stays its owner's (I2).
func (w *Writer) ClaimNotStarted(ctx context.Context, l Lease, fault string) (Moved, error) {
	row, err := workspacesdb.New(w.store).ClaimNotStarted(ctx, workspacesdb.ClaimNotStartedParams{
		WorkspaceID: l.WorkspaceID, Incarnation: l.Incarnation, JobID: l.JobID, Attempt: l.Attempt, Fault: fault,
		ActorID: Prewarm,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("record failed start", err)
}

// StartAgain: claimed -> claimed, because a worker that had lost its lease has stopped it. A start job follows. ErrLost if
// it is not claimed in that incarnation any more.
func (w *Writer) StartAgain(ctx context.Context, id uuid.UUID, incarnation int32, reason string) error {
	_, err := workspacesdb.New(w.store).ClaimStartAgain(ctx, workspacesdb.ClaimStartAgainParams{
		WorkspaceID: id, Incarnation: incarnation, NextJobID: w.newID(), Priority: PriorityPerson, ActorID: Prewarm,
		Reason: reason,
	})
	return lost("start workspace again", err)
}

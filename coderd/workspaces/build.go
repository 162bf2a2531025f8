package workspaces

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// New workspaces of a pass, one slice element each.
type Planned struct {
	ID       uuid.UUID
	JobID    uuid.UUID
	PresetID uuid.UUID
	Name     string
	Priority int32 // of its create job: lower first
	Reason   string
}

// Facts are what the provider said of the resource; Addresses and Environment are handed out with the claim.
type Facts struct {
	ProviderID  string
	OSName      string // empty: it did not say
	OSVersion   string
	Addresses   json.RawMessage // an array
	Environment json.RawMessage // an object of strings
}

// Plan writes new workspaces with their create jobs: nothing -> provisioning. It runs on the pass's own transaction and
// takes one statement however many there are.
func (w *Writer) Plan(ctx context.Context, db database.DBTX, planned []Planned) error {
	if len(planned) == 0 {
		return nil
	}
	arg := workspacesdb.WorkspacesPlannedParams{ActorID: Prewarm, Source: w.replica}
	for _, p := range planned {
		arg.Ids = append(arg.Ids, p.ID)
		arg.Names = append(arg.Names, p.Name)
		arg.PresetIds = append(arg.PresetIds, p.PresetID)
		arg.JobIds = append(arg.JobIds, p.JobID)
		arg.Priorities = append(arg.Priorities, p.Priority)
		arg.Reasons = append(arg.Reasons, p.Reason)
	}
	if err := workspacesdb.New(db).WorkspacesPlanned(ctx, arg); err != nil {
		return xerrors.Errorf("write planned workspaces: %w", err)
	}
	return nil
}

// Created: provisioning -> starting. The probe job that asks for readiness follows.
func (w *Writer) Created(ctx context.Context, l Lease, f Facts) (Moved, error) {
	row, err := workspacesdb.New(w.store).WorkspaceCreated(ctx, workspacesdb.WorkspaceCreatedParams{
		WorkspaceID: l.WorkspaceID, Incarnation: l.Incarnation, JobID: l.JobID, Attempt: l.Attempt,
		ProviderID: f.ProviderID, Addresses: f.Addresses, Environment: f.Environment, OsName: f.OSName, OsVersion: f.OSVersion,
		NextJobID: w.newID(), ActorID: Prewarm,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("record creation", err)
}

// Ready: starting -> ready, and at once to claimed if someone waits: the oldest waiter is bound in the same
// transaction, before anybody else can see the workspace. It returns the claims it bound.
func (w *Writer) Ready(ctx context.Context, l Lease, f Facts, reason string) (Moved, []Bound, error) {
	var moved Moved
	var bound []Bound
	err := w.store.InTx(ctx, database.TxOptions{Label: "ready"}, func(ctx context.Context, tx pgx.Tx) error {
		row, err := workspacesdb.New(tx).WorkspaceReady(ctx, workspacesdb.WorkspaceReadyParams{
			WorkspaceID: l.WorkspaceID, Incarnation: l.Incarnation, JobID: l.JobID, Attempt: l.Attempt,
			Addresses: f.Addresses, Environment: f.Environment, OsName: f.OSName, OsVersion: f.OSVersion, ActorID: Prewarm, Reason: reason,
		})
		if err := lost("record readiness", err); err != nil {
			return err
		}
		moved = Moved{row.ID, row.TemplateID, row.PresetID}
		bound, err = w.bindOldest(ctx, tx, row.PresetID)
		return err
	})
	if err == nil {
		w.tell(bound)
	}
	return moved, bound, err
}

// Silent: ready -> starting, because its agent has not been heard of in time; the probe job that waits for the agent, or
// for the boot timeout, follows. ErrLost also if the agent was heard of meanwhile.
func (w *Writer) Silent(ctx context.Context, id uuid.UUID, incarnation int32, reason string) (Moved, error) {
	row, err := workspacesdb.New(w.store).WorkspaceSilent(ctx, workspacesdb.WorkspaceSilentParams{
		WorkspaceID: id, Incarnation: incarnation, NextJobID: w.newID(), Priority: PriorityPrebuild, ActorID: Prewarm,
		Reason: reason,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("record silence", err)
}

// maxFault is how much of the last fault of a cause is kept, in characters.
const maxFault = 2000

// Failure is why a workspace will never become ready, and what is left to look at.
type Failure struct {
	ProviderID string // where the provider made something; may be empty
	Fault      string
	Permanent  bool   // trying again will not help, as far as one can tell (C8)
	Log        string // the end of its output, if any
	// PresetID is given where the template keeps failures: those of one preset are then recorded one after the other.
	PresetID uuid.UUID
}

// Failed: provisioning -> deleting, or starting -> draining, because it will never become ready; or -> quarantined, while
// the template keeps fewer failures of the preset than it may. It says which. The fault stays with the workspace and the
// preset's streak of failures grows, unless what failed was begun before the streak last grew;
// and it is counted by its cause (C8).
func (w *Writer) Failed(ctx context.Context, l Lease, f Failure) (moved Moved, kept bool, err error) {
	fail := func(ctx context.Context, db database.DBTX) error {
		row, err := workspacesdb.New(db).WorkspaceFailed(ctx, workspacesdb.WorkspaceFailedParams{
			WorkspaceID: l.WorkspaceID, Incarnation: l.Incarnation, JobID: l.JobID, Attempt: l.Attempt,
			ProviderID: f.ProviderID, Fault: f.Fault, Log: f.Log, Permanent: f.Permanent, Cause: prebuilds.Cause(f.Fault),
			Headline: printable.Headline(f.Fault), LastFault: printable.BothEnds(f.Fault, maxFault),
			NextJobID: w.newID(), ActorID: Prewarm,
		})
		moved = Moved{row.ID, row.TemplateID, row.PresetID}
		kept = row.State == database.WorkspaceStateQuarantined
		return lost("record failure", err)
	}
	if f.PresetID == uuid.Nil {
		err = fail(ctx, w.store)
		return moved, kept, err
	}
	opts := database.TxOptions{Label: "failed"}
	err = w.store.InTx(ctx, opts, func(ctx context.Context, tx pgx.Tx) error {
		if err := workspacesdb.New(tx).LockFailuresOf(ctx, f.PresetID); err != nil {
			return xerrors.Errorf("lock failures of preset: %w", err)
		}
		return fail(ctx, tx)
	})
	return moved, kept, err
}

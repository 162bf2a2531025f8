package workspaces

import (
	"context"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// handoverBatch is how many are begun in one statement.
const handoverBatch = 100

// BeginHandovers: claimed -> claimed, with a job that hands each over to its owner, of those at these providers whose specs ask for it.
// Of the workspaces named, or of all. It returns how many there were.
func (w *Writer) BeginHandovers(ctx context.Context, providers []string, ids []uuid.UUID) (begun int, err error) {
	for n := handoverBatch; n == handoverBatch; begun += n {
		rows, err := workspacesdb.New(w.store).BeginHandovers(ctx, workspacesdb.BeginHandoversParams{
			Providers: providers, Ids: append([]uuid.UUID{}, ids...), Batch: handoverBatch, Priority: PriorityPerson, ActorID: Prewarm,
			Reason: "to be applied for its owner",
		})
		if err != nil {
			return begun, lost("begin handovers", err)
		}
		n = len(rows)
	}
	return begun, nil
}

// HandedOver: claimed -> claimed, because the provider knows its owner. It returns how long after its claim that was, in seconds.
func (w *Writer) HandedOver(ctx context.Context, l Lease, f Facts) (tookS float64, err error) {
	row, err := workspacesdb.New(w.store).HandedOver(ctx, workspacesdb.HandedOverParams{
		WorkspaceID: l.WorkspaceID, Incarnation: l.Incarnation, JobID: l.JobID, Attempt: l.Attempt, Addresses: f.Addresses,
		Environment: f.Environment, ActorID: Prewarm, Reason: "applied for its owner",
	})
	return row.TookS, lost("record handover", err)
}

// retryHandover: claimed -> claimed, because a person wants a handover that failed tried again. ErrNotQuarantined if none did.
func (w *Writer) retryHandover(ctx context.Context, a Actor, id uuid.UUID, incarnation int32) (Moved, error) {
	row, err := workspacesdb.New(w.store).HandoverRetried(ctx, workspacesdb.HandoverRetriedParams{
		WorkspaceID: id, Incarnation: incarnation, NextJobID: w.newID(), Priority: PriorityPerson, ActorID: a.UserID,
		Reason: a.Reason, Source: a.Source,
	})
	if database.NoRows(err) {
		return Moved{}, ErrNotQuarantined
	}
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("retry handover", err)
}

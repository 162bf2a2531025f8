package workspaces

import (
	"context"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// handoverBatch is how many are begun in one statement, where all are looked for.
const handoverBatch = 100

// BeginHandovers: claimed -> claimed, with a job that hands each over to its owner, of those at these providers whose specs ask for it.
// Of the workspaces named; where none is named, of all, so many at a time. It returns how many there were.
func (w *Writer) BeginHandovers(ctx context.Context, providers []string, ids ...uuid.UUID) (begun int, err error) {
	all := len(ids) == 0
	for {
		if all {
			ids, err = workspacesdb.New(w.store).HandoversToBegin(ctx, workspacesdb.HandoversToBeginParams{Providers: providers, Most: handoverBatch})
			if err != nil || len(ids) == 0 {
				return begun, lost("find handovers to begin", err)
			}
		}
		rows, err := workspacesdb.New(w.store).BeginHandoversOf(ctx, workspacesdb.BeginHandoversOfParams{
			Providers: providers, Ids: ids, Priority: PriorityPerson, ActorID: Prewarm, Reason: "to be applied for its owner",
		})
		if begun += len(rows); err != nil || !all || len(rows) == 0 {
			return begun, lost("begin handovers", err)
		}
	}
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

package workspaces

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// Missing: starting, ready or standby -> quarantined, because inventories say that its provider has nothing of it, or
// contradicts it. seenAt is when the last of them began; ErrLost if the workspace has moved since.
func (w *Writer) Missing(ctx context.Context, id uuid.UUID, incarnation int32, seenAt time.Time, fault string, keep time.Duration) (Moved, error) {
	row, err := workspacesdb.New(w.store).WorkspaceMissing(ctx, workspacesdb.WorkspaceMissingParams{
		WorkspaceID: id, Incarnation: incarnation, SeenAt: seenAt, Fault: fault, KeepS: keep.Seconds(), ActorID: Prewarm,
		Source: w.replica,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("quarantine missing workspace", err)
}

// Vanished: deleting -> deleted, because inventories say that nothing is there, though deleting it fails.
func (w *Writer) Vanished(ctx context.Context, id uuid.UUID, incarnation int32, seenAt time.Time, reason string) (Moved, error) {
	row, err := workspacesdb.New(w.store).WorkspaceVanished(ctx, workspacesdb.WorkspaceVanishedParams{
		WorkspaceID: id, Incarnation: incarnation, SeenAt: seenAt, Reason: reason, ActorID: Prewarm, Source: w.replica,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("record vanished workspace", err)
}

// Adopt records the id that a workspace's resource has at its provider, where none is recorded. No state moves.
func (w *Writer) Adopt(ctx context.Context, id uuid.UUID, incarnation int32, providerID, reason string) (Moved, error) {
	row, err := workspacesdb.New(w.store).WorkspaceAdopted(ctx, workspacesdb.WorkspaceAdoptedParams{
		WorkspaceID: id, Incarnation: incarnation, ProviderID: providerID, Reason: reason, ActorID: Prewarm, Source: w.replica,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("adopt resource", err)
}

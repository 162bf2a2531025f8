package workspaces

import (
	"context"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/workspacesdb"
)

// Missing: starting, ready or standby -> quarantined, because inventories say that its provider has nothing of it, or
// contradicts it. Gone: it has nothing of it, so that it counts against no maximum. seenAt is when the last of them began;
// ErrLost if the workspace has moved since.
func (w *Writer) Missing(
	ctx context.Context, id uuid.UUID, incarnation int32, seenAt time.Time, gone bool, fault string, keep time.Duration,
) (Moved, error) {
	row, err := workspacesdb.New(w.store).WorkspaceMissing(ctx, workspacesdb.WorkspaceMissingParams{
		WorkspaceID: id, Incarnation: incarnation, SeenAt: seenAt, Gone: gone, Fault: fault, KeepS: keep.Seconds(),
		ActorID: Prewarm, Source: w.replica,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("quarantine missing workspace", err)
}

// KnownGone records of a claimed or a quarantined workspace that inventories say its provider has nothing of it: it counts
// against no maximum any more. No state moves. ErrLost if it has moved since seenAt, when the last of them began, or if
// something is being made of it.
func (w *Writer) KnownGone(ctx context.Context, id uuid.UUID, incarnation int32, seenAt time.Time) (Moved, error) {
	row, err := workspacesdb.New(w.store).WorkspaceKnownGone(ctx, workspacesdb.WorkspaceKnownGoneParams{
		WorkspaceID: id, Incarnation: incarnation, SeenAt: seenAt,
	})
	return Moved{row.ID, row.TemplateID, row.PresetID}, lost("record that a workspace is gone", err)
}

// ClaimLost writes into the audit log that a claimed workspace is missing at its provider, and why. No state moves. If it was
// claimed in the last 5 minutes, its user is served first within the next hour.
func (w *Writer) ClaimLost(ctx context.Context, id uuid.UUID, why string) error {
	err := workspacesdb.New(w.store).ClaimLost(ctx, workspacesdb.ClaimLostParams{
		WorkspaceID: id, ActorID: Prewarm, Reason: why, Source: w.replica,
	})
	if err != nil {
		return xerrors.Errorf("record that a claim lost its workspace: %w", err)
	}
	return nil
}

// SeenAgain records that the listing which began at seenAt has a workspace that was gone: it takes its place again, under
// the fence, so that no pass gives that place to another. ErrLost if it was found gone later, or is not gone.
func (w *Writer) SeenAgain(ctx context.Context, id uuid.UUID, incarnation int32, seenAt time.Time) (moved Moved, err error) {
	err = w.returning(ctx, id, func(ctx context.Context, db database.DBTX, _ workspacesdb.RoomForRow) error {
		row, err := workspacesdb.New(db).WorkspaceSeenAgain(ctx, workspacesdb.WorkspaceSeenAgainParams{
			WorkspaceID: id, Incarnation: incarnation, SeenAt: &seenAt,
		})
		moved = Moved{row.ID, row.TemplateID, row.PresetID}
		return lost("record that a workspace is seen again", err)
	})
	return moved, err
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

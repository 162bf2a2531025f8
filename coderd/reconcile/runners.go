package reconcile

import (
	"context"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/reconciledb"
)

// runner is one by the key of its row.
type runner struct {
	workspace   uuid.UUID
	incarnation int32
}

// stoppedForges are those of the presets of runners that are stopped, by id. Where there are no such presets, nothing is read.
func stoppedForges(ctx context.Context, db database.DBTX, presets []reconciledb.SnapshotPresetsRow) (
	map[uuid.UUID]reconciledb.SnapshotStoppedForgesRow, error,
) {
	var ids []uuid.UUID
	for _, row := range presets {
		if row.ForgeEntityID.Valid {
			ids = append(ids, row.ForgeEntityID.UUID)
		}
	}
	if len(ids) == 0 {
		return nil, nil //nolint:nilnil // none are
	}
	rows, err := reconciledb.New(db).SnapshotStoppedForges(ctx, ids)
	if err != nil {
		return nil, xerrors.Errorf("read stopped forges: %w", err)
	}
	stopped := lists.Keyed(rows, func(row reconciledb.SnapshotStoppedForgesRow) (uuid.UUID, reconciledb.SnapshotStoppedForgesRow) {
		return row.ID, row
	})
	return stopped, nil
}

// toRunner is nil for a preset that is not one of runners.
func toRunner(row reconciledb.SnapshotPresetsRow, stopped map[uuid.UUID]reconciledb.SnapshotStoppedForgesRow) *prebuilds.Runner {
	if !row.ForgeEntityID.Valid {
		return nil
	}
	r := prebuilds.Runner{
		Queued: int(row.Queued), Busy: int(row.Busy), ShrunkAt: database.OrZero(row.ShrunkAt),
		Maximum: int(database.OrZero(row.RunnerMaximum)),
	}
	if forge, is := stopped[row.ForgeEntityID.UUID]; is {
		r.Stopped = &prebuilds.ForgeStop{Forge: forge.Name, Cause: forge.StoppedReason}
	}
	return &r
}

// atJobs are the runners that are at a job and not claimed yet (P7). Where there are no presets of runners, nothing is read.
func atJobs(ctx context.Context, db database.DBTX, presets []reconciledb.SnapshotPresetsRow) (map[runner]bool, error) {
	var arg reconciledb.SnapshotRunnersAtJobsParams
	for _, row := range presets {
		if row.ForgeEntityID.Valid {
			arg.PresetIds = append(arg.PresetIds, row.ID)
			arg.TemplateIds = append(arg.TemplateIds, row.TemplateID)
		}
	}
	if len(arg.PresetIds) == 0 {
		return nil, nil //nolint:nilnil // none are
	}
	rows, err := reconciledb.New(db).SnapshotRunnersAtJobs(ctx, arg)
	if err != nil {
		return nil, xerrors.Errorf("read runners at jobs: %w", err)
	}
	busy := lists.Keyed(rows, func(row reconciledb.SnapshotRunnersAtJobsRow) (runner, bool) {
		return runner{row.ID, row.Incarnation}, true
	})
	return busy, nil
}

// storeShrunk keeps when surplus runners went, by which the next half waits (P8). It is written beside the status, which is
// of the same pass and there by now, and is no part of what people are shown.
func storeShrunk(ctx context.Context, db database.DBTX, snap snapshot, plans []*prebuilds.Plan) error {
	var shrunk []uuid.UUID
	for _, p := range plans {
		if p == nil {
			continue
		}
		if _, shrinks := p.Shrinks(snap.Now); shrinks {
			shrunk = append(shrunk, p.PresetID)
		}
	}
	if len(shrunk) == 0 {
		return nil
	}
	if err := reconciledb.New(db).StoreShrunk(ctx, reconciledb.StoreShrunkParams{At: &snap.Now, PresetIds: shrunk}); err != nil {
		return xerrors.Errorf("store when surplus went: %w", err)
	}
	return nil
}

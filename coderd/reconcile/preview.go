package reconcile

import (
	"context"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/reconciledb"
)

// Preview is what a pass would do at that instant.
type Preview struct {
	Now     time.Time // the database's clock
	Presets []Previewed
}

// Previewed is what it would do for one preset. Err is there where it could not plan it; then there is no plan.
type Previewed struct {
	Preset     prebuilds.Preset // as it was decided on
	Workspaces []prebuilds.Workspace
	Plan       prebuilds.Plan
	Err        error
}

// Preview decides as a pass over the templates would, or over everything where there are none given, by the same code, and
// writes nothing. q is of a REPEATABLE READ transaction, which may have changed things that it will roll back. It takes
// neither the pass's lock nor its fence, so passes and previews do not wait for each other.
func (r *Reconciler) Preview(ctx context.Context, db database.DBTX, templates []uuid.UUID) (Preview, error) {
	now, err := reconciledb.New(db).TransactionNow(ctx)
	if err != nil {
		return Preview{}, xerrors.Errorf("read the time: %w", err)
	}
	snap, err := r.snapshot(ctx, db, now, templates)
	if err != nil {
		return Preview{}, err
	}
	plans, errs, _ := snap.Decide()
	groups := snap.ByPreset()
	out := Preview{Now: now}
	for i, p := range snap.Presets {
		previewed := Previewed{Preset: p, Workspaces: groups[p.ID], Err: errs[p.ID]}
		if plans[i] != nil {
			previewed.Preset, previewed.Plan = plans[i].Preset, *plans[i]
		}
		out.Presets = append(out.Presets, previewed)
	}
	return out, nil
}

package reconcile

import (
	"context"
	"strings"
	"time"

	"cdr.dev/slog"
	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/reconciledb"
)

// Decision is what a pass decided for one preset that it wanted to change.
type Decision struct {
	Template string
	Version  int // the active one's number; 0: none
	Preset   string
	Counts   prebuilds.Counts // as the pass found them
	Create   int
	Drain    int
	Cancel   int
	Stop     int
	Start    int
	Reasons  []explain.Said // of the ledger
	Intents  []prebuilds.Intent
}

// decisions lists what changes something, in the order of the snapshot.
func decisions(ctx context.Context, db database.DBTX, snap snapshot, plans []*prebuilds.Plan) ([]Decision, error) {
	var made []Decision
	var templates []uuid.UUID // of each
	for i, p := range plans {
		if p == nil || p.Create == 0 && len(p.Intents) == 0 && len(p.Moves) == 0 {
			continue
		}
		d := Decision{
			Template: snap.Presets[i].Template, Preset: snap.Presets[i].Name,
			Counts: p.Counts, Create: p.Create, Reasons: explain.Reasons(p.Ledger), Intents: p.Intents,
		}
		for _, in := range p.Intents {
			if in.Kind == prebuilds.Cancel {
				d.Cancel++
			} else {
				d.Drain++
			}
		}
		for _, m := range p.Moves {
			if m.Kind == prebuilds.Stop {
				d.Stop++
			} else {
				d.Start++
			}
		}
		made, templates = append(made, d), append(templates, snap.Presets[i].TemplateID)
	}
	if len(made) == 0 {
		return nil, nil
	}
	rows, err := reconciledb.New(db).ActiveVersions(ctx, templates)
	if err != nil {
		return nil, xerrors.Errorf("read active versions: %w", err)
	}
	versions := lists.Keyed(rows, func(row reconciledb.ActiveVersionsRow) (uuid.UUID, int32) { return row.ID, row.Number })
	for i := range made {
		made[i].Version = int(versions[templates[i]])
	}
	return made, nil
}

// why is the reasons in one line.
func why(reasons []explain.Said, between string) string {
	texts := lists.Of(reasons, func(r explain.Said) string { return r.Text })
	return strings.Join(texts, between)
}

// tell writes a line for each decision that changed something, and nothing for a pass that changed nothing (C3).
func (r *Reconciler) tell(ctx context.Context, trigger string, res Result, took time.Duration) {
	for _, d := range res.Decisions {
		fields := []any{
			slog.F("preset", d.Template+"/"+d.Preset), slog.F("version", d.Version), slog.F("trigger", trigger),
			slog.F("create", d.Create), slog.F("drain", d.Drain), slog.F("cancel", d.Cancel), slog.F("stop", d.Stop),
			slog.F("start", d.Start), slog.F("why", why(d.Reasons, "; ")),
		}
		for name, n := range d.Counts.All {
			fields = append(fields, slog.F(name, n))
		}
		r.Log.Info(ctx, "decided", append(fields, slog.F("pass", res.Seq), slog.F("took", took.String()))...)
	}
	if r.NameVictims {
		r.tellVictims(ctx, res)
	}
}

// tellVictims writes a line at debug for each workspace that is to go.
func (r *Reconciler) tellVictims(ctx context.Context, res Result) {
	var ids []uuid.UUID
	for _, d := range res.Decisions {
		for _, in := range d.Intents {
			ids = append(ids, in.WorkspaceID)
		}
	}
	if len(ids) == 0 {
		return
	}
	rows, err := reconciledb.New(r.Store).WorkspaceNames(ctx, ids)
	if err != nil {
		r.Log.Debug(ctx, "read names of victims", slog.Error(err))
		return
	}
	names := lists.Keyed(rows, func(row reconciledb.WorkspaceNamesRow) (uuid.UUID, string) { return row.ID, row.Name })
	for _, d := range res.Decisions {
		for _, in := range d.Intents {
			r.Log.Debug(ctx, "victim chosen", slog.F("preset", d.Template+"/"+d.Preset), slog.F("workspace", names[in.WorkspaceID]),
				slog.F("workspace_id", in.WorkspaceID), slog.F("kind", in.Kind), slog.F("why", explain.Text(in.Reason)),
				slog.F("rule", in.Rule), slog.F("pass", res.Seq))
		}
	}
}

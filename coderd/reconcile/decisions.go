package reconcile

import (
	"context"
	"strings"
	"time"

	"cdr.dev/slog"

	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// Decision is what a pass decided for one preset that it wanted to change.
type Decision struct {
	Preset  string // TEMPLATE/PRESET
	Create  int
	Drain   int
	Cancel  int
	Stop    int
	Start   int
	Reasons []explain.Said // of the ledger
}

// decisions lists what changes something, in the order of the snapshot.
func decisions(snap snapshot, plans []*prebuilds.Plan) []Decision {
	var made []Decision
	for i, p := range plans {
		if p == nil || p.Create == 0 && len(p.Intents) == 0 && len(p.Moves) == 0 {
			continue
		}
		d := Decision{
			Preset: snap.Presets[i].Template + "/" + snap.Presets[i].Name, Create: p.Create, Reasons: explain.Reasons(p.Ledger),
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
		made = append(made, d)
	}
	return made
}

// why is the reasons in one line.
func why(reasons []explain.Said, between string) string {
	texts := make([]string, len(reasons))
	for i, r := range reasons {
		texts[i] = r.Text
	}
	return strings.Join(texts, between)
}

// tell writes a line for each decision that changed something, and nothing for a pass that changed nothing.
func (r *Reconciler) tell(ctx context.Context, trigger string, res Result, took time.Duration) {
	for _, d := range res.Decisions {
		r.log.Info(ctx, "decided", slog.F("preset", d.Preset), slog.F("create", d.Create), slog.F("drain", d.Drain),
			slog.F("cancel", d.Cancel), slog.F("stop", d.Stop), slog.F("start", d.Start), slog.F("why", why(d.Reasons, "; ")), slog.F("trigger", trigger),
			slog.F("pass", res.Seq), slog.F("took", took.String()))
	}
}

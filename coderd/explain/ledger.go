package explain

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// Said is a reason with its code, for whoever has to branch, and its words.
type Said struct {
	Code prebuilds.Code // empty where it has none: the label says all, or it is of a release before codes
	Text string
}

// Reasons says in short sentences why actual is not desired, or what is about to change; none where the pool is as it
// should be.
func Reasons(l prebuilds.Ledger) []Said {
	reasons := []Said{}
	add := func(code prebuilds.Code, format string, args ...any) {
		reasons = append(reasons, Said{code, fmt.Sprintf(format, args...)})
	}
	if r := l.Rollout; r != nil && r.Phase == prebuilds.RolloutStopped {
		add(r.Code, "rollout stopped with %d of %d ready, %d outdated kept: %s (C7)", r.Ready, r.Desired, r.Outdated, RolloutReason(r))
	}
	for _, line := range l.Creates {
		text := said(line.Reason, line.Text)
		switch {
		case line.Label == prebuilds.LabelStarting:
			add("", "%d starting", -line.Count)
		case line.Label == prebuilds.LabelHeldBack:
			add(line.Code, "%s held back: %s (%s)", prebuilds.Plural(-line.Count, "create"), text, line.Rule)
		case line.Label == prebuilds.LabelDesired && line.Rule == "C9" || line.Label == prebuilds.LabelRenewed:
			// The first is as it should be, and the second is among the drains.
		case text != "":
			add(line.Code, "%s %d: %s (%s)", line.Label, line.Count, text, line.Rule)
		}
	}
	if l.Create > 0 {
		add("", "create %d", l.Create)
	}
	for _, line := range slices.Concat(l.Drains, l.Moves) {
		add(line.Code, "%s %d: %s (%s)", line.Label, line.Count, said(line.Reason, line.Text), line.Rule)
	}
	return reasons
}

// RolloutReason says why a rollout stopped, or what holds it up; empty where nothing does.
func RolloutReason(r *prebuilds.Rollout) string { return said(r.Reason, r.Text) }

// Ledger renders the ledger as a column of numbers that adds up, then what goes.
func Ledger(l prebuilds.Ledger) string {
	var b strings.Builder
	for i, line := range l.Creates {
		format := "%-12s%+6d"
		if i == 0 {
			format = "%-12s%6d"
		}
		fmt.Fprintf(&b, format, line.Label, line.Count)
		explainLine(&b, line)
	}
	fmt.Fprintf(&b, "%-12s%6d\n", prebuilds.LabelCreate, l.Create)
	for _, line := range slices.Concat(l.Drains, l.Moves) {
		fmt.Fprintf(&b, "%-12s%6d", line.Label, line.Count)
		explainLine(&b, line)
	}
	return b.String()
}

func explainLine(b *strings.Builder, line prebuilds.Line) {
	if text := said(line.Reason, line.Text); text != "" {
		fmt.Fprintf(b, "  %s (%s)", text, line.Rule)
	}
	b.WriteByte('\n')
}

// Plan renders the plan: the ledger, then each intent.
func Plan(plan prebuilds.Plan) string {
	var b strings.Builder
	b.WriteString(Ledger(plan.Ledger))
	for _, i := range plan.Intents {
		fmt.Fprintf(&b, "%s workspace %s, incarnation %d: %s (%s)\n", i.Kind, i.WorkspaceID, i.Incarnation, Text(i.Reason), i.Rule)
	}
	for _, m := range plan.Moves {
		fmt.Fprintf(&b, "%s workspace %s, incarnation %d: %s (%s)\n", m.Kind, m.WorkspaceID, m.Incarnation, Text(m.Reason),
			prebuilds.MoveRule)
	}
	if !plan.RetryAt.IsZero() {
		fmt.Fprintf(&b, "may change by itself at %s\n", prebuilds.Instant(plan.RetryAt))
	}
	return b.String()
}

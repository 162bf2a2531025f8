package prebuilds

import (
	"fmt"
	"slices"
	"strings"
)

// Ledger is how a plan came about, for people: what `explain`, `preset list` and the UI show. It holds nothing that
// changes from pass to pass while nothing happens, so that it is written only when there is something to tell.
type Ledger struct {
	// Creates leads from desired to Create: its counts are signed, and their sum is Create.
	Creates []Line `json:"creates"`
	Create  int    `json:"create"`
	// Drains says what goes (labels drain and cancel), grouped by reason, and what only would (label keep).
	Drains []Line `json:"drains"`
	// Moves says what is stopped and started between the tiers, grouped by reason.
	Moves []Line `json:"moves,omitempty"`
	// Rollout is there while a version replaces another.
	Rollout *Rollout `json:"rollout,omitempty"`
}

// Line is one entry. Rule is the number of the design's rule behind it, and Reason says it in words; both are empty
// where the label says all.
type Line struct {
	Label  string `json:"label"`
	Count  int    `json:"count"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// openLedger enters C5 line by line, and sets Create by it.
func (plan *Plan) openLedger(p *Preset, desired Line, renewal renewal) {
	c := plan.Counts
	plan.Ledger = Ledger{Creates: []Line{desired}, Drains: []Line{}}
	if p.Retired == "" {
		plan.Ledger.create("waiting", p.Waiting)
		if n := p.queued(); n > 0 {
			plan.Ledger.Creates = append(plan.Ledger.Creates, Line{"queued", n, "P3", queuedReason})
		}
	}
	if renewal.surge > 0 {
		plan.Ledger.Creates = append(plan.Ledger.Creates, Line{"renewal", renewal.surge, "C9", renewReason})
	}
	plan.Ledger.create("actual", -c.Actual)
	if n := len(renewal.gone); n > 0 {
		plan.Ledger.Creates = append(plan.Ledger.Creates, Line{"renewed", n, "C9", renewReason})
	}
	plan.Ledger.create("starting", -c.Starting)
	plan.Ledger.create("extraneous", c.Extraneous)
	plan.Create = max(0, p.wanted()+renewal.surge-c.Actual+len(renewal.gone)-c.Starting+c.Extraneous)
	plan.Ledger.Create = plan.Create
}

const renewReason = "expires soon"

// holdBack takes n out of the plan's creates, and says by which rule.
func (plan *Plan) holdBack(n int, rule, reason string) {
	if n == 0 {
		return
	}
	plan.Create -= n
	plan.Ledger.Create = plan.Create
	plan.Ledger.Creates = append(plan.Ledger.Creates, Line{"held back", -n, rule, reason})
}

func (l *Ledger) create(label string, n int) {
	if n != 0 {
		l.Creates = append(l.Creates, Line{Label: label, Count: n})
	}
}

// drain adds n to the line of that label and reason.
func (l *Ledger) drain(label string, n int, rule, reason string) {
	if n == 0 {
		return
	}
	for i := range l.Drains {
		if d := &l.Drains[i]; d.Label == label && d.Rule == rule && d.Reason == reason {
			if d.Count += n; d.Count == 0 {
				l.Drains = slices.Delete(l.Drains, i, i+1)
			}
			return
		}
	}
	l.Drains = append(l.Drains, Line{label, n, rule, reason})
}

// Reasons says in short sentences why actual is not desired, or what is about to change; none where the pool is as it
// should be.
func (l Ledger) Reasons() []string {
	reasons := []string{}
	if r := l.Rollout; r != nil && r.Phase == RolloutStopped {
		reasons = append(reasons, fmt.Sprintf("rollout stopped with %d of %d ready, %d outdated kept: %s (C7)", r.Ready,
			r.Desired, r.Outdated, r.Reason))
	}
	for _, line := range l.Creates {
		switch {
		case line.Label == "starting":
			reasons = append(reasons, fmt.Sprintf("%d starting", -line.Count))
		case line.Label == "held back":
			held := plural(-line.Count, "create")
			reasons = append(reasons, fmt.Sprintf("%s held back: %s (%s)", held, line.Reason, line.Rule))
		case line.Label == "desired" && line.Rule == "C9" || line.Label == "renewed":
			// The first is as it should be, and the second is among the drains.
		case line.Reason != "":
			reasons = append(reasons, fmt.Sprintf("%s %d: %s (%s)", line.Label, line.Count, line.Reason, line.Rule))
		}
	}
	if l.Create > 0 {
		reasons = append(reasons, fmt.Sprintf("create %d", l.Create))
	}
	for _, line := range l.Drains {
		reasons = append(reasons, fmt.Sprintf("%s %d: %s (%s)", line.Label, line.Count, line.Reason, line.Rule))
	}
	for _, line := range l.Moves {
		reasons = append(reasons, fmt.Sprintf("%s %d: %s (%s)", line.Label, line.Count, line.Reason, line.Rule))
	}
	return reasons
}

// String renders the ledger as a column of numbers that adds up, then what goes.
func (l Ledger) String() string {
	var b strings.Builder
	for i, line := range l.Creates {
		format := "%-12s%+6d"
		if i == 0 {
			format = "%-12s%6d"
		}
		fmt.Fprintf(&b, format, line.Label, line.Count)
		line.explain(&b)
	}
	fmt.Fprintf(&b, "%-12s%6d\n", "create", l.Create)
	for _, line := range slices.Concat(l.Drains, l.Moves) {
		fmt.Fprintf(&b, "%-12s%6d", line.Label, line.Count)
		line.explain(&b)
	}
	return b.String()
}

func (line Line) explain(b *strings.Builder) {
	if line.Reason != "" {
		fmt.Fprintf(b, "  %s (%s)", line.Reason, line.Rule)
	}
	b.WriteByte('\n')
}

// String renders the plan: the ledger, then each intent.
func (plan Plan) String() string {
	var b strings.Builder
	b.WriteString(plan.Ledger.String())
	for _, i := range plan.Intents {
		fmt.Fprintf(&b, "%s workspace %s, incarnation %d: %s (%s)\n",
			i.Kind, i.WorkspaceID, i.Incarnation, i.Reason, i.Rule)
	}
	for _, m := range plan.Moves {
		fmt.Fprintf(&b, "%s workspace %s, incarnation %d: %s (%s)\n", m.Kind, m.WorkspaceID, m.Incarnation, m.Reason, moveRule)
	}
	if !plan.RetryAt.IsZero() {
		fmt.Fprintf(&b, "may change by itself at %s\n", instant(plan.RetryAt))
	}
	return b.String()
}

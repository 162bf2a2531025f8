package prebuilds

import "slices"

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

// Line is one entry. Rule is the number of the design's rule behind it, and both it and the reason are empty where the label
// says all. Text is the reason in words: the planner leaves it out, coderd/explain puts it in for storing, and in rows of a
// release before codes it is all there is.
type Line struct {
	Label string `json:"label"`
	Count int    `json:"count"`
	Rule  string `json:"rule,omitempty"`
	Text  string `json:"reason,omitempty"`
	Reason
}

// Labels of lines. Those of drains and moves are the kinds of intents and moves.
const (
	LabelDesired    = "desired"
	LabelWaiting    = "waiting"
	LabelQueued     = "queued"
	LabelAtJobs     = "at jobs"
	LabelRenewal    = "renewal"
	LabelRenewed    = "renewed"
	LabelActual     = "actual"
	LabelStarting   = "starting"
	LabelExtraneous = "extraneous"
	LabelCreate     = "create"
	LabelHeldBack   = "held back"
	LabelKeep       = "keep"
	LabelRollout    = "rollout"
)

// openLedger enters C5 line by line, and sets Create by it.
func (plan *Plan) openLedger(p *Preset, desired Line, renewal renewal) {
	c := plan.Counts
	plan.Ledger = Ledger{Creates: []Line{desired}, Drains: []Line{}}
	if p.Retired == "" {
		plan.Ledger.create(LabelWaiting, p.Waiting)
		if n := p.queued(); n > 0 {
			plan.Ledger.because(LabelQueued, n, "P3", Reason{Code: JobsWait})
		}
	}
	if renewal.surge > 0 {
		plan.Ledger.because(LabelRenewal, renewal.surge, "C9", Reason{Code: ExpiresSoon})
	}
	plan.Ledger.create(LabelActual, -c.Actual)
	if n := len(renewal.gone); n > 0 {
		plan.Ledger.because(LabelRenewed, n, "C9", Reason{Code: ExpiresSoon})
	}
	plan.Ledger.create(LabelStarting, -c.Starting)
	plan.Ledger.create(LabelExtraneous, c.Extraneous)
	plan.Create = max(0, p.wanted()+renewal.surge-c.Actual+len(renewal.gone)-c.Starting+c.Extraneous)
	plan.Ledger.Create = plan.Create
}

// holdBack takes n out of the plan's creates, and says by which rule.
func (plan *Plan) holdBack(n int, rule string, reason Reason) {
	if n == 0 {
		return
	}
	plan.Create -= n
	plan.Ledger.Create = plan.Create
	plan.Ledger.because(LabelHeldBack, -n, rule, reason)
}

// because enters a line of the creates with its reason.
func (l *Ledger) because(label string, n int, rule string, reason Reason) {
	l.Creates = append(l.Creates, Line{Label: label, Count: n, Rule: rule, Reason: reason})
}

func (l *Ledger) create(label string, n int) {
	if n != 0 {
		l.Creates = append(l.Creates, Line{Label: label, Count: n})
	}
}

// drain adds n to the line of that label and reason.
func (l *Ledger) drain(label string, n int, rule string, reason Reason) {
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
	l.Drains = append(l.Drains, Line{Label: label, Count: n, Rule: rule, Reason: reason})
}

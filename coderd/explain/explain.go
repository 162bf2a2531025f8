package explain

import (
	"fmt"
	"slices"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// Explanation is a plan in words, for `prewarm preset explain`: why the pool is not what it should be, by which rule, and
// when it will be.
type Explanation struct {
	// Headline answers "why is it not warm?" in one sentence.
	Headline string `json:"headline"`
	// WarmAt is when desired are ready at the earliest, if nothing else happens; zero where they are, where that depends on
	// somebody, and where no prebuild was built yet to measure by.
	WarmAt time.Time   `json:"warm_at,omitzero"`
	Lines  []Explained `json:"lines"`
}

// Explained is one line of the ledger with its sentence. The lines of the creates come first and add up to the one
// labelled create; what follows goes, or is kept.
type Explained struct {
	prebuilds.Line        // with its words
	Sentence       string `json:"sentence"`
	// Expected says when the line changes, in words; ExpectedAt is the instant, where there is one.
	Expected   string    `json:"expected,omitempty"`
	ExpectedAt time.Time `json:"expected_at,omitzero"`
}

// Explain puts a plan into words, clamped or not. The workspaces are those that it was made for; provision is how long a prebuild takes from its beginning to being ready, as measured; zero where nothing was measured.
func Explain(ws []prebuilds.Workspace, plan prebuilds.Plan, now time.Time, provision time.Duration) Explanation {
	x := explaining{preset: plan.Preset, ws: ws, plan: plan, now: now, provision: provision}
	var out Explanation
	creates := []prebuilds.Line{{Label: prebuilds.LabelCreate, Count: plan.Ledger.Create}}
	out.Lines = lists.Of(slices.Concat(plan.Ledger.Creates, creates, plan.Ledger.Drains, plan.Ledger.Moves), x.line)
	if r := plan.Ledger.Rollout; r != nil && r.Phase == prebuilds.RolloutStopped {
		out.Lines = append(out.Lines, x.line(prebuilds.Line{Label: prebuilds.LabelRollout, Count: r.Outdated, Rule: "C7", Reason: r.Reason}))
	}
	out.Headline, out.WarmAt = x.headline(out.Lines)
	return out
}

type explaining struct {
	preset    prebuilds.Preset
	ws        []prebuilds.Workspace
	plan      prebuilds.Plan
	now       time.Time
	provision time.Duration
}

func (x *explaining) line(line prebuilds.Line) Explained {
	line.Text = said(line.Reason, line.Text)
	out := Explained{Line: line, Sentence: line.Text}
	s, ok := sentences[key{line.Label, line.Code}]
	if !ok { // never in a release: TestExplain_everySentenceIsSaid
		return out
	}
	out.Sentence = s.says
	switch s.quotes {
	case arguments:
		out.Sentence += " " + quote(line.Reason)
	case everything:
		out.Sentence += " " + line.Text
	case nothing:
	}
	if s.when != nil {
		out.Expected, out.ExpectedAt = s.when(x)
	}
	return out
}

// headline is the one sentence, and when the pool will be warm.
func (x *explaining) headline(lines []Explained) (string, time.Time) {
	c := x.plan.Counts
	wanted := prebuilds.Plural(c.Desired, "prebuild")
	switch {
	case x.preset.Retired != "":
		return "Not kept warm: " + Text(x.preset.Retirement()) + ".", time.Time{}
	case c.Desired == 0 && c.Waiting+c.Queued == 0:
		return "Not kept warm: it is to have no prebuilds now.", time.Time{}
	case c.Actual >= c.Desired && c.Waiting+c.Queued == 0:
		note := ""
		if x.preset.Pause != "" {
			note = " It is paused (" + x.preset.Pause + "): what is claimed is not replaced."
		}
		if x.preset.Breaker != "" && note == "" {
			note = " The breaker of its provider is open (" + x.preset.Breaker + "): what is claimed is not replaced."
		}
		if c.Standby > 0 {
			return fmt.Sprintf("Warm: %d of %s ready, %d of them stopped in standby.%s", c.Actual, wanted, c.Standby, note),
				time.Time{}
		}
		return fmt.Sprintf("Warm: %d of %s ready.%s", c.Actual, wanted, note), time.Time{}
	}
	rollout := x.plan.Ledger.Rollout
	serves := rollout != nil && rollout.Phase == prebuilds.RolloutProgressing && c.Eligible > 0 && x.preset.FailureStreak == 0
	text := fmt.Sprintf("Not warm: %d of %s ready", c.Actual, wanted)
	if serves { // a healthy rollout is no alarm
		text = fmt.Sprintf("Rolling out: %d claimable, %d of %s of the new version ready", c.Eligible, c.Actual, wanted)
	}
	if c.Waiting > 0 {
		text += ", " + prebuilds.Plural(c.Waiting, "claim") + " waiting"
	}
	if c.Queued > 0 {
		text += ", " + prebuilds.Plural(c.Queued, "job") + " waiting"
	}
	if c.Starting > 0 {
		text += fmt.Sprintf(", %d starting", c.Starting)
	}
	if x.plan.Create > 0 {
		text += fmt.Sprintf(", %d to be created", x.plan.Create)
	}
	if c.Eligible > c.Actual && !serves {
		text += fmt.Sprintf("; %d can be claimed meanwhile", c.Eligible)
	}
	if p := x.preset; p.FailureStreak > 0 && !slices.ContainsFunc(x.plan.Ledger.Creates, tellsFailures) {
		text += "; " + lastFailed(p.FailureStreak, p.LastFailure)
	}
	// What a person has to end, and what has no known end, leaves the time open.
	var at time.Time
	known := x.provision > 0
	for _, l := range lines {
		switch {
		case l.Label == prebuilds.LabelHeldBack:
			text += fmt.Sprintf("; %s held back: %s", prebuilds.Plural(-l.Count, "create"), l.Text)
			at = later(at, l.ExpectedAt.Add(x.provision))
			known = known && !l.ExpectedAt.IsZero()
		case l.Label == prebuilds.LabelStarting || l.Label == prebuilds.LabelCreate && l.Count > 0:
			at = later(at, l.ExpectedAt)
		}
	}
	if !known || at.IsZero() {
		return text + ".", time.Time{}
	}
	return text + ".", at
}

// tellsFailures says whether a line has the last failure in its words already.
func tellsFailures(l prebuilds.Line) bool {
	return l.Label == prebuilds.LabelHeldBack && slices.Contains([]prebuilds.Code{
		prebuilds.HardLimited, prebuilds.Backoff, prebuilds.RolloutHeld,
	}, l.Code)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) presetExplainCommand() *cobra.Command {
	return newCommand("explain TEMPLATE/PRESET", "Say why a pool is as it is, and when it will be warm",
		`Says in one sentence whether a pool is warm, and if not, why. The reasons are below. The lines from
desired to what is created add up, each with the rule behind it and when it changes. Then comes what is deleted and
what is kept. It is decided at this instant, as the next pass would.

Expected times are at the earliest, by the median time that the preset's latest prebuilds took.`,
		"  prewarm preset explain quickstart/default\n  prewarm preset explain quickstart/default -o json",
		show(a, ofPreset((*sdk.Client).ExplainPreset), a.explanationText))
}

func (a *app) explanationText(e sdk.Explanation) string {
	text := oneLine(e.Headline)
	if e.WarmAt != nil {
		text += " Expected warm: " + a.ago(*e.WarmAt) + "."
	}
	t := a.newTable("COUNT", "WHAT", "RULE", "EXPECTED", "WHY")
	a.addLines(t, e.Lines)
	text += "\n\n" + t.String()
	more := a.newTable()
	if e.Runner != nil {
		more.add("Runners", runnerText(*e.Runner))
		more.add("Jobs", fmt.Sprintf("%d queued, %d running", e.Queued, e.Claimed))
	}
	for _, p := range e.Pauses {
		scope := p.Scope
		if p.Target != "" {
			scope += " " + p.Target
		}
		more.add("Paused", fmt.Sprintf("%s, by %s: %s (ends: %s)", scope, p.CreatedBy, p.Reason,
			a.agoOr(p.ExpiresAt, "when resumed")))
	}
	more.addIf("Target not reached", cell{e.Unattainable, yellow})
	addAttained(more, e.Attained)
	if e.Measured > 0 {
		more.add("Usual time to ready", fmt.Sprintf("%s (median of %d)",
			(time.Duration(e.ProvisionMS)*time.Millisecond).Round(10*time.Millisecond), e.Measured))
	}
	more.addIf("Changes by itself", a.agoOr(e.LookAgainAt, ""))
	if len(more.rows) > 0 {
		text += "\n" + more.String()
	}
	return text
}

// addLines adds a ledger: signed where it adds up, plain where it only counts.
func (a *app) addLines(t *table, lines []sdk.LedgerLine) {
	summed := false
	for i, l := range lines {
		count := fmt.Sprintf("%+d", l.Count)
		if i == 0 || summed || l.Label == "create" {
			count = fmt.Sprint(l.Count)
		}
		summed = summed || l.Label == "create"
		expected := l.Expected
		if l.ExpectedAt != nil && expected != "at once" {
			if expected != "" {
				expected += ", "
			}
			expected += a.ago(*l.ExpectedAt)
		}
		label := cell{text: l.Label}
		if l.Label == "held back" || l.Label == "rollout" {
			label.style = yellow
		}
		t.add(count, label, l.Rule, expected, l.Sentence)
	}
}

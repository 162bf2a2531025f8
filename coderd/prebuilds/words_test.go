package prebuilds_test

import (
	"time"

	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// The planner has no words, but its tests read better with them: they are those of coderd/explain, which imports it.
func init() {
	prebuilds.Words = prebuilds.TestWords{
		Text: explain.Text, Plan: explain.Plan, Ledger: explain.Ledger, Stored: explain.Stored, Sentences: explain.Sentences(),
		Reasons: func(l prebuilds.Ledger) (texts []string) {
			for _, r := range explain.Reasons(l) {
				texts = append(texts, r.Text)
			}
			return texts
		},
		Explain: func(ws []prebuilds.Workspace, plan prebuilds.Plan, now time.Time, provision time.Duration) prebuilds.TestExplanation {
			e := explain.Explain(ws, plan, now, provision)
			out := prebuilds.TestExplanation{Headline: e.Headline, WarmAt: e.WarmAt}
			for _, l := range e.Lines {
				out.Lines = append(out.Lines, prebuilds.TestExplained(l))
			}
			return out
		},
	}
}

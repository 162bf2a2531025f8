package prebuilds

import "time"

// TestWords are what the tests of this package take from coderd/explain; words_test.go gives them.
type TestWords struct {
	Text      func(Reason) string
	Plan      func(Plan) string
	Ledger    func(Ledger) string
	Stored    func(Ledger) Ledger
	Reasons   func(Ledger) []string
	Sentences map[string][]Code // known, by label
	Explain   func(ws []Workspace, plan Plan, now time.Time, provision time.Duration) TestExplanation
}

var Words TestWords

type TestExplanation struct {
	Headline string
	WarmAt   time.Time
	Lines    []TestExplained
}

type TestExplained struct {
	Line
	Sentence   string
	Expected   string
	ExpectedAt time.Time
}

func (plan Plan) String() string { return Words.Plan(plan) }
func (l Ledger) String() string  { return Words.Ledger(l) }
func (r Reason) String() string  { return Words.Text(r) }

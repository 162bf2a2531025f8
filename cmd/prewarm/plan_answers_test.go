package main

import (
	"time"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

var testExplanation = sdk.Explanation{
	Template: "quickstart", Preset: "default", At: now, Counts: sdk.Counts{Desired: 5, Actual: 1, Eligible: 1, Starting: 1},
	Headline: "Not warm: 1 of 5 prebuilds ready, 1 starting; 3 creates held back: backoff, until 2026-03-01T12:00:06Z: 2 failed " +
		"creates in a row: no \x1b[31mroom.",
	WarmAt: ptr(now.Add(46 * time.Second)), ProvisionMS: 40_123, Measured: 12, LookAgainAt: ptr(now.Add(6 * time.Second)), Unattainable: testUnattainable,
	Attained: testAttained,
	Lines: []sdk.LedgerLine{
		{Label: "desired", Count: 5, Sentence: "desired"},
		{Label: "actual", Count: -1, Sentence: "ready"},
		{Label: "starting", Count: -1, Sentence: "are being built", ExpectedAt: ptr(now.Add(30 * time.Second))},
		{
			Label: "held back", Count: -3, Rule: "C8", Reason: "backoff", Sentence: "waits after a failed create",
			Expected: "when the backoff ends", ExpectedAt: ptr(now.Add(6 * time.Second)),
		},
		{Label: "create", Sentence: "to create now"},
		{
			Label: "drain", Count: 2, Rule: "C9", Reason: "expired", Sentence: "are past their TTL and go", Expected: "at once",
			ExpectedAt: &now,
		},
	},
	Pauses: []sdk.Pause{
		{Scope: "global", Reason: "moving", CreatedBy: "alice", CreatedAt: before(time.Hour), ExpiresAt: ptr(now.Add(time.Hour))},
		{Scope: "preset", Target: "quickstart/default", Reason: "looking", CreatedBy: "bob", CreatedAt: before(time.Minute)},
	},
}

var testPlan = sdk.Plan{
	ID: id(70), At: now, ExpiresAt: now.Add(24 * time.Hour), Totals: sdk.PlanTotals{Create: 2, Drain: 3},
	Changes: []sdk.Change{{Kind: "preset", Name: "quickstart/default", Action: "update", Fields: []string{"instances: 3 -> 5"}}},
	Presets: []sdk.PresetPlan{
		{Template: "ci", Preset: "large", Error: "read schedule: unknown timezone"},
		{Template: "ci", Preset: "small", Desired: 1, Actual: 1, Lines: []sdk.LedgerLine{
			{Label: "desired", Count: 1, Sentence: "desired"},
			{Label: "actual", Count: -1, Sentence: "ready"},
			{Label: "create", Sentence: "to create now"},
		}},
		{
			Template: "quickstart", Preset: "default", Desired: 5, PlanTotals: sdk.PlanTotals{Create: 2, Drain: 3},
			Lines: []sdk.LedgerLine{
				{Label: "desired", Count: 5, Sentence: "desired"},
				{Label: "held back", Count: -3, Rule: "S5", Reason: "chunk", Sentence: "one pass begins only so many creates"},
				{Label: "create", Count: 2, Sentence: "to create now"},
				{Label: "drain", Count: 3, Rule: "C9", Reason: "expired", Sentence: "are past their TTL and go"},
			},
		},
	},
}

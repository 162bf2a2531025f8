package sdk

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// PlanRequest asks what the next pass would do, with a file applied where there is a document.
type PlanRequest struct {
	Document string `json:"document,omitempty" doc:"YAML; the state as it is where empty"`
	File     string `json:"file,omitempty" doc:"Its name, for error messages"`
	// Resize is in the place of a document: that of the preset's template as it is, with another number of instances.
	Resize *PlanResize `json:"resize,omitempty" doc:"Instead of a document: another number of instances for one preset"`
}

// PlanResize is another number of instances for one preset.
type PlanResize struct {
	Template  string `json:"template"`
	Preset    string `json:"preset"`
	Instances int    `json:"instances" minimum:"0" maximum:"10000"`
}

// Plan is what the next pass would do. Nothing of it is done.
type Plan struct {
	ID        uuid.UUID    `json:"id" doc:"To apply the file only if nothing of this has moved"`
	At        time.Time    `json:"at" doc:"The instant that everything was read at"`
	ExpiresAt time.Time    `json:"expires_at"`
	Changes   []Change     `json:"changes" doc:"To the configuration, by the file"`
	Presets   []PresetPlan `json:"presets"`
	Totals    PlanTotals   `json:"totals"`
}

// PlanTotals are over all presets of the organization.
type PlanTotals struct {
	Create int `json:"create"`
	Cancel int `json:"cancel"`
	Drain  int `json:"drain"`
	Stop   int `json:"stop,omitempty" doc:"Into standby"`
	Start  int `json:"start,omitempty" doc:"Out of standby"`
}

// PresetPlan is what the next pass would do with one preset.
type PresetPlan struct {
	Template string `json:"template"`
	Preset   string `json:"preset"`
	Desired  int    `json:"desired"`
	Actual   int    `json:"actual"`
	Starting int    `json:"starting"`
	PlanTotals
	Lines []LedgerLine `json:"lines" doc:"From desired to what is created, then what goes and what is kept"`
	Error string       `json:"error,omitempty" doc:"Why nothing can be planned for it"`
}

// LedgerLine is one entry of how a decision came about.
type LedgerLine struct {
	Label      string     `json:"label"`
	Count      int        `json:"count"`
	Rule       string     `json:"rule,omitempty" doc:"Of the design, such as C5"`
	Reason     string     `json:"reason,omitempty"`
	ReasonCode string     `json:"reason_code,omitempty" doc:"The same for programs; codes are never renamed"`
	Sentence   string     `json:"sentence" doc:"The same for people"`
	Expected   string     `json:"expected,omitempty" doc:"When it changes, in words"`
	ExpectedAt *time.Time `json:"expected_at,omitempty" doc:"When it changes, where that is known"`
}

// Explanation says why a pool is as it is, as the next pass would see it.
type Explanation struct {
	Template string `json:"template"`
	Preset   string `json:"preset"`
	Counts
	Runner       *RunnerSettings `json:"runner,omitempty"`
	At           time.Time       `json:"at"`
	Headline     string          `json:"headline" doc:"Why it is warm, or is not, in a sentence"`
	WarmAt       *time.Time      `json:"warm_at,omitempty" doc:"When desired are ready at the earliest, where that is known"`
	Lines        []LedgerLine    `json:"lines" doc:"Those of the creates add up to the one labelled create"`
	Pauses       []Pause         `json:"pauses" doc:"All that hold for it"`
	ProvisionMS  int64           `json:"provision_ms,omitempty" doc:"Median time from the decision to being ready, of the latest"`
	Measured     int             `json:"measured" doc:"Of how many"`
	Unattainable string          `json:"unattainable,omitempty" doc:"Why autosize does not reach its target"`
	Attained     []Attained      `json:"attained,omitempty" doc:"With autosize's sizes, over the last day and the last 7 days"`
	LookAgainAt  *time.Time      `json:"look_again_at,omitempty" doc:"When time alone changes the decision"`
	Error        string          `json:"error,omitempty" doc:"Why nothing can be decided for it"`
}

// MakePlan says what the next pass would do, with a file applied or not, and changes nothing.
func (c *Client) MakePlan(ctx context.Context, req PlanRequest) (Plan, error) {
	return ask[Plan](ctx, c, post("plans").with(req).repeatable())
}

// ExplainPreset says why a pool is as it is.
func (c *Client) ExplainPreset(ctx context.Context, template, preset string) (Explanation, error) {
	return get[Explanation](ctx, c, "presets", template, preset, "explain")
}

package sdk

import (
	"context"
	"strconv"
	"time"
)

// PresetHistory is what a pool looked like over time, in steps of equal length, the oldest first.
type PresetHistory struct {
	Template    string         `json:"template"`
	Preset      string         `json:"preset"`
	From        time.Time      `json:"from"`
	To          time.Time      `json:"to"`
	StepSeconds int            `json:"step_seconds" doc:"Length of a step: the longer the range, the longer"`
	Points      []HistoryPoint `json:"points" doc:"One for each step, the last of which lasts still"`
}

// HistoryPoint is one step. The counts are those of the samples in it, which are taken every five minutes; they are left out
// where nothing was sampled, as when no server ran.
type HistoryPoint struct {
	At          time.Time `json:"at" doc:"When the step begins"`
	Desired     *int      `json:"desired,omitempty" doc:"The most that the pool should have had ready"`
	Ready       *int      `json:"ready,omitempty" doc:"The fewest that were ready"`
	Starting    *int      `json:"starting,omitempty" doc:"The most that were being built"`
	Claimed     *int      `json:"claimed,omitempty" doc:"The most that were claimed"`
	Claims      int       `json:"claims,omitempty" doc:"How many came; a claim of several is one"`
	Hits        int       `json:"hits,omitempty" doc:"Of these, those that got a prebuild at once"`
	Provisions  int       `json:"provisions,omitempty" doc:"How many prebuilds became ready"`
	ProvisionMS int64     `json:"provision_ms,omitempty" doc:"How long these took from the decision to build them, on average"`
}

// PresetDurations is how long the workspaces of a preset usually are in each state.
type PresetDurations struct {
	Template string          `json:"template"`
	Preset   string          `json:"preset"`
	States   []StateDuration `json:"states" doc:"Only those that some workspace has left"`
}

// StateDuration is how long one state lasts, by the latest workspaces.
type StateDuration struct {
	State    string `json:"state" enum:"provisioning,starting,ready,standby,claimed,draining,deleting,quarantined,deleted"`
	P50MS    int64  `json:"p50_ms" doc:"Half of them took no longer"`
	P95MS    int64  `json:"p95_ms" doc:"95 of 100 took no longer"`
	Measured int    `json:"measured" doc:"By how many"`
}

// PresetHistory returns what a pool looked like over the last hours, 14 days at most.
func (c *Client) PresetHistory(ctx context.Context, template, preset string, hours int) (PresetHistory, error) {
	return ask[PresetHistory](ctx, c, read("presets", template, preset, "history").where(query{"hours": strconv.Itoa(hours)}))
}

// PresetDurations returns how long the workspaces of a preset usually are in each state.
func (c *Client) PresetDurations(ctx context.Context, template, preset string) (PresetDurations, error) {
	return get[PresetDurations](ctx, c, "presets", template, preset, "durations")
}

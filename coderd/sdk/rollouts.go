package sdk

import (
	"context"
	"time"
)

// Rollout is how far a version is on its way to replace another (C7).
type Rollout struct {
	Phase    string `json:"phase" enum:"progressing,stopped"`
	Ready    int    `json:"ready" doc:"Prebuilds of the active version that are ready"`
	Desired  int    `json:"desired"`
	Outdated int    `json:"outdated" doc:"Prebuilds of older versions that are kept so far"`
	Reason   string `json:"reason,omitempty" doc:"Why it stopped"`

	ReasonCode string `json:"reason_code,omitempty" doc:"The same for programs"`
}

// RollbackRequest chooses the version to go back to.
type RollbackRequest struct {
	Version int    `json:"version,omitempty" minimum:"0" maximum:"2147483647" doc:"Number of the version; 0 is the one that was active before"`
	Reason  string `json:"reason,omitempty" maxLength:"1000" doc:"For the audit log"`
}

// RollbackResult says what was done.
type RollbackResult struct {
	Template string `json:"template"`
	From     int    `json:"from" doc:"Number of the version that was active"`
	To       int    `json:"to" doc:"Number of the version that is active now"`
}

// ReasonRequest is an act with a reason for the audit log.
type ReasonRequest struct {
	Reason string `json:"reason,omitempty" maxLength:"1000" doc:"For the audit log"`
}

// Failures are those of a preset's creates (C8).
type Failures struct {
	Template string `json:"template"`
	Preset   string `json:"preset"`
	// Streak and those after it are of the pool as it is now, since a create of it succeeded last.
	Streak    int        `json:"streak" doc:"Rounds of failed creates in a row"`
	Permanent int        `json:"permanent" doc:"Of these, those that will not succeed on retry"`
	Since     *time.Time `json:"since,omitempty"`
	Causes    []Cause    `json:"causes" doc:"Over the last 30 days, the latest first"`
}

// Cause groups failures whose faults differ only in names, ids and numbers.
type Cause struct {
	Cause     string    `json:"cause"`
	Count     int64     `json:"count"`
	Permanent bool      `json:"permanent" doc:"Whether it will not succeed on retry, as far as one can tell"`
	FirstAt   time.Time `json:"first_at"`
	LastAt    time.Time `json:"last_at"`
	Fault     string    `json:"fault" doc:"The last one in full"`
	Message   string    `json:"message" doc:"The last line of that fault that says something, then what failed"`
	Workspace string    `json:"workspace" doc:"Name of the last workspace"`
	Version   int       `json:"version" doc:"Number of the last version"`
}

// PresetFailures shows why creates of a preset failed.
func (c *Client) PresetFailures(ctx context.Context, template, preset string) (Failures, error) {
	return get[Failures](ctx, c, "presets", template, preset, "failures")
}

// ResetPreset forgets the failures of a preset's creates, so that they begin again.
func (c *Client) ResetPreset(ctx context.Context, template, preset, reason string) error {
	return c.do(ctx, post("presets", template, preset, "reset").with(ReasonRequest{Reason: reason}).repeatable())
}

// InvalidatePreset replaces all unclaimed prebuilds of a preset. Each call replaces them anew.
func (c *Client) InvalidatePreset(ctx context.Context, template, preset, reason string) error {
	return c.do(ctx, post("presets", template, preset, "invalidate").with(ReasonRequest{Reason: reason}))
}

// RollbackTemplate makes another version the active one. With version 0 each call goes back once more.
func (c *Client) RollbackTemplate(ctx context.Context, name string, req RollbackRequest) (RollbackResult, error) {
	request := post("templates", name, "rollback").with(req)
	request.idempotent = req.Version != 0
	return ask[RollbackResult](ctx, c, request)
}

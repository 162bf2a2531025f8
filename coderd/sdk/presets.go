package sdk

import (
	"context"
)

// Presets lists all presets of the organization with their counts.
func (c *Client) Presets(ctx context.Context) ([]Preset, error) {
	return get[[]Preset](ctx, c, "presets")
}

// Preset looks one up.
func (c *Client) Preset(ctx context.Context, template, preset string) (Preset, error) {
	return get[Preset](ctx, c, "presets", template, preset)
}

// NudgePreset asks for a pass over the preset's template now. It carries no state, so it is repeated at will.
func (c *Client) NudgePreset(ctx context.Context, template, preset string) error {
	return c.do(ctx, post("presets", template, preset, "nudge").repeatable())
}

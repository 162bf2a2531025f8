package sdk

import (
	"context"
)

// Pauses lists what is paused (C10).
func (c *Client) Pauses(ctx context.Context) ([]Pause, error) {
	return get[[]Pause](ctx, c, "pauses")
}

// Pause stops creates and drains in a scope, or changes the reason and the end of its pause.
func (c *Client) Pause(ctx context.Context, req PauseRequest) (Pause, error) {
	return ask[Pause](ctx, c, post("pauses").with(req).repeatable())
}

// Resume ends the pause of a scope. Target is empty for scope global.
func (c *Client) Resume(ctx context.Context, scope, target string) error {
	return c.do(ctx, remove("pauses").where(query{"scope": scope, "target": target}).repeatable())
}

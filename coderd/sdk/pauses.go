package sdk

import (
	"context"
	"net/http"
	"net/url"
)

// Pauses lists what is paused (C10).
func (c *Client) Pauses(ctx context.Context) ([]Pause, error) {
	return get[[]Pause](ctx, c, "pauses")
}

// Pause stops creates and drains in a scope, or changes the reason and the end of its pause.
func (c *Client) Pause(ctx context.Context, req PauseRequest) (Pause, error) {
	return ask[Pause](ctx, c, call{
		method: http.MethodPost, path: []string{"pauses"}, body: req, idempotent: true,
	})
}

// Resume ends the pause of a scope. Target is empty for scope global.
func (c *Client) Resume(ctx context.Context, scope, target string) error {
	query := url.Values{"scope": {scope}}
	if target != "" {
		query.Set("target", target)
	}
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"pauses"}, query: query, idempotent: true})
}

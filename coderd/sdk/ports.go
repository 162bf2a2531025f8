package sdk

import (
	"context"
	"strconv"
)

// DialPort connects to a TCP port inside a workspace that the client's user has claimed, by its loopback address. ctx bounds only
// the opening.
func (c *Client) DialPort(ctx context.Context, ref string, port int) (*Stream, error) {
	return c.stream(ctx, "workspaces", ref, "ports", strconv.Itoa(port), "connect")
}

// stream opens a raw stream. It outlives ctx.
func (c *Client) stream(ctx context.Context, path ...string) (*Stream, error) {
	ws, err := c.dial(ctx, path...)
	if err != nil {
		return nil, err
	}
	return NewStream(context.WithoutCancel(ctx), c.clock(), ws), nil
}

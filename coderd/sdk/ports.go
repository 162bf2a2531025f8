package sdk

import (
	"context"
	"strconv"
)

// Port is a TCP port on which something in a workspace listens.
type Port struct {
	Port    int    `json:"port"`
	Process string `json:"process,omitempty" doc:"The name of the process that listens, where the agent can see it"`
	PID     int    `json:"pid,omitempty"`
}

// Ports lists the TCP ports inside a workspace that DialPort reaches, by number.
func (c *Client) Ports(ctx context.Context, ref string) ([]Port, error) {
	return get[[]Port](ctx, c, "workspaces", ref, "ports")
}

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

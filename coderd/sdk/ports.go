package sdk

import (
	"context"
	"strconv"
	"time"
)

// Port is a TCP port on which something in a workspace listens.
type Port struct {
	Port    int    `json:"port"`
	Process string `json:"process,omitempty" doc:"The name of the process that listens, where the agent can see it"`
	PID     int    `json:"pid,omitempty"`
	URL     string `json:"url,omitempty" doc:"Where a browser reaches it, on an origin of its own: it first asks who is signed in. Empty where the server has no --workspace-domain"`
}

// PortLinkRequest asks for a link to a port.
type PortLinkRequest struct {
	Path string `json:"path,omitempty" maxLength:"2048" pattern:"^/" doc:"Where it leads, with a query: / if empty" example:"/docs?page=2"`
}

// PortLink lets one browser to a port.
type PortLink struct {
	URL       string    `json:"url"`
	ExpiresAt time.Time `json:"expires_at" doc:"Until when it can be opened, once"`
}

// Ports lists the TCP ports inside a workspace that DialPort reaches, by number.
func (c *Client) Ports(ctx context.Context, ref string) ([]Port, error) {
	return get[[]Port](ctx, c, "workspaces", ref, "ports")
}

// LinkPort makes a link by which one browser reaches a port of a workspace that the client's user has claimed, once and within a
// minute. The path is where it leads; empty: the root.
func (c *Client) LinkPort(ctx context.Context, ref string, port int, path string) (PortLink, error) {
	return ask[PortLink](ctx, c, post("workspaces", ref, "ports", strconv.Itoa(port), "link").with(PortLinkRequest{Path: path}).repeatable())
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

package sdk

import (
	"context"

	"github.com/coder/websocket"
)

// OpenTunnel opens the connection of an agent's data plane, with its instance token. Streams on it are those of coderd/streams.
func (c *Client) OpenTunnel(ctx context.Context) (*websocket.Conn, error) {
	return c.dial(ctx, "instance", "tunnel")
}

// ClaimHeader says, in a request to an agent, for which claim it is.
const ClaimHeader = "Prewarm-Claim"

// TargetHeader says, in a request to an agent that is for a port, what is asked there: the path and the query, as they came.
const TargetHeader = "Prewarm-Target"

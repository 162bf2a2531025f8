package sdk

import (
	"context"
)

// Claim asks for a workspace and waits for the answer as long as the request says. A miss is an answer, not an error.
// With a key the same request can be sent again, so it is, if the server could not be reached.
func (c *Client) Claim(ctx context.Context, req ClaimRequest) (Claim, error) {
	request := post("claims").with(req)
	request.idempotent = req.Key != ""
	return ask[Claim](ctx, c, request)
}

package sdk

import (
	"context"
	"net/http"
)

// Claim asks for a workspace and waits for the answer as long as the request says. A miss is an answer, not an error.
// With a key the same request can be sent again, so it is, if the server could not be reached.
func (c *Client) Claim(ctx context.Context, req ClaimRequest) (Claim, error) {
	var claim Claim
	err := c.do(ctx, call{
		method: http.MethodPost, path: []string{"claims"}, body: req, into: &claim, idempotent: req.Key != "",
	})
	return claim, err
}

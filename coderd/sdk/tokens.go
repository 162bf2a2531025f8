package sdk

import (
	"context"
)

// Whoami says who the client's token speaks for.
func (c *Client) Whoami(ctx context.Context) (Identity, error) {
	return get[Identity](ctx, c, "whoami")
}

// Login is Whoami that goes on the record.
func (c *Client) Login(ctx context.Context) (Identity, error) {
	return ask[Identity](ctx, c, post("login"))
}

// Tokens lists one's own tokens; for owners, everybody's.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	return get[[]Token](ctx, c, "tokens")
}

// CreateToken makes a token. Its secret is in this answer and never again.
func (c *Client) CreateToken(ctx context.Context, req CreateTokenRequest) (CreatedToken, error) {
	return ask[CreatedToken](ctx, c, post("tokens").with(req))
}

// RevokeToken ends a token, named or by id, on all replicas within a second.
func (c *Client) RevokeToken(ctx context.Context, ref string) error {
	return c.do(ctx, remove("tokens", ref).repeatable())
}

package sdk

import (
	"context"
	"net/http"
)

// Whoami says who the client's token speaks for.
func (c *Client) Whoami(ctx context.Context) (Identity, error) {
	var id Identity
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"whoami"}, into: &id, idempotent: true})
	return id, err
}

// Login is Whoami that goes on the record.
func (c *Client) Login(ctx context.Context) (Identity, error) {
	var id Identity
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"login"}, into: &id})
	return id, err
}

// Tokens lists one's own tokens; for owners, everybody's.
func (c *Client) Tokens(ctx context.Context) ([]Token, error) {
	var tokens []Token
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"tokens"}, into: &tokens, idempotent: true})
	return tokens, err
}

// CreateToken makes a token. Its secret is in this answer and never again.
func (c *Client) CreateToken(ctx context.Context, req CreateTokenRequest) (CreatedToken, error) {
	var created CreatedToken
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"tokens"}, body: req, into: &created})
	return created, err
}

// RevokeToken ends a token, named or by id, on all replicas within a second.
func (c *Client) RevokeToken(ctx context.Context, ref string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"tokens", ref}, idempotent: true})
}

package sdk

import (
	"context"
	"net/http"

	"github.com/google/uuid"
)

// The instance API: what the inside of a workspace says and asks, with an instance token in place of a user's. None of
// these calls is repeated by itself; an agent has its own way with a server that is away.

// once reads what is at a path, and is not sent again.
func once(path ...string) call { return call{method: http.MethodGet, path: path} }

// Report says how a workspace is.
func (c *Client) Report(ctx context.Context, report AgentReport) (AgentReceipt, error) {
	return ask[AgentReceipt](ctx, c, post("instance", "status").with(report))
}

// InstanceMetadata reads what the workspace is.
func (c *Client) InstanceMetadata(ctx context.Context) (InstanceMetadata, error) {
	return ask[InstanceMetadata](ctx, c, once("instance", "metadata"))
}

// InstanceEvents waits, up to a time of the server's choice, until the workspace is claimed by another claim than the one
// that is known (zero for none), and returns what is so then.
func (c *Client) InstanceEvents(ctx context.Context, known uuid.UUID) (InstanceEvents, error) {
	return ask[InstanceEvents](ctx, c, once("instance", "events").where(query{"known": known}))
}

// RunnerConfiguration registers the workspace's runner at its forge, and reads its configuration. It can be read once.
func (c *Client) RunnerConfiguration(ctx context.Context) (RunnerConfiguration, error) {
	return ask[RunnerConfiguration](ctx, c, once("instance", "runner-configuration"))
}

// ReportRunner says how the workspace's runner is.
func (c *Client) ReportRunner(ctx context.Context, report RunnerReport) error {
	return c.do(ctx, post("instance", "runner").with(report))
}

// SigningKeys lists the keys that sign instance tokens, the newest first.
func (c *Client) SigningKeys(ctx context.Context) ([]SigningKey, error) {
	return get[[]SigningKey](ctx, c, "signing-keys")
}

// RotateSigningKey makes a new key, and returns all.
func (c *Client) RotateSigningKey(ctx context.Context, req RotateRequest) ([]SigningKey, error) {
	return ask[[]SigningKey](ctx, c, post("signing-keys").with(req))
}

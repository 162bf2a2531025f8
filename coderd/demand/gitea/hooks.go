package gitea

import (
	"context"
	"time"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/rest"
)

// InstallHook makes the webhook, always another one: Gitea leaves the secret of one that it changes as it was. Of an instance it
// is a system webhook: of all repositories, not copied into new ones.
func (c *client) InstallHook(ctx context.Context, address, secret string, _ int64) (forge.Hook, error) {
	return c.Client.InstallHook(ctx, secret, 0, func(bool) any {
		config := map[string]string{"url": address, "content_type": "json", "secret": secret}
		want := map[string]any{"config": config, "events": []string{rest.EventJob}, "active": true, "type": "gitea"}
		if c.Scope == forge.Enterprise {
			want["is_system_webhook"], config["is_system_webhook"] = true, "true" // by version, the one or the other
		}
		return want
	})
}

// PingHook sends a test delivery, of a push, which Gitea does for repositories only.
func (c *client) PingHook(ctx context.Context, id int64) error {
	if c.Scope != forge.Repository {
		return xerrors.Errorf("test webhook: Gitea does that for repositories only: %w", forge.ErrUnsupported)
	}
	return c.PostHook(ctx, "test", id, "/tests")
}

// Deliveries are kept by Gitea for people only.
func (c *client) Deliveries(context.Context, int64, time.Time) ([]forge.Sent, error) {
	return nil, xerrors.Errorf("list deliveries: %w", forge.ErrUnsupported)
}

func (c *client) DeliveryBody(context.Context, int64, int64) ([]byte, error) {
	return nil, xerrors.Errorf("get delivery: %w", forge.ErrUnsupported)
}

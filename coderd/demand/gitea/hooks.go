package gitea

import (
	"context"
	"net/http"
	"strconv"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

func (c *client) hookPath(id int64) string { return c.root + "/hooks/" + strconv.FormatInt(id, 10) }

// InstallHook makes the webhook, or sets the one that calls the address aright. Of an instance it is a system webhook.
func (c *client) InstallHook(ctx context.Context, address, secret string) (forge.Hook, error) {
	if secret == "" {
		return forge.Hook{}, xerrors.New("a webhook without a secret is refused: anybody could call it")
	}
	there, err := c.hookAt(ctx, address)
	if err != nil {
		return forge.Hook{}, xerrors.Errorf("list webhooks: %w", c.hidden(err))
	}
	want := wireHook{
		Type: "gitea", Config: map[string]string{"url": address, "content_type": "json", "secret": secret},
		Events: []string{eventJob}, Active: true,
	}
	if c.scope == forge.Enterprise {
		want.System, want.Config["is_system_webhook"] = true, "true" // by version, the one or the other
	}
	method, path := http.MethodPost, c.root+"/hooks"
	if there != 0 {
		method, path = http.MethodPatch, c.hookPath(there)
		want.Type = ""
	}
	var made wireHook
	if err := c.do(ctx, method, path, nil, want, &made); err != nil {
		return forge.Hook{}, xerrors.Errorf("install webhook: %w", c.hidden(err))
	}
	return hookOf(made), nil
}

// hookAt is the id of the webhook that calls the address; 0: none does.
func (c *client) hookAt(ctx context.Context, address string) (int64, error) {
	for number := 1; ; number++ {
		query := pageQuery(number)
		if c.scope == forge.Enterprise {
			query.Set("type", "system")
		}
		var page []wireHook
		if err := c.do(ctx, http.MethodGet, c.root+"/hooks", query, nil, &page); err != nil {
			return 0, err
		}
		for _, h := range page {
			if h.Config["url"] == address {
				return h.ID, nil
			}
		}
		if len(page) == 0 {
			return 0, nil
		}
	}
}

func hookOf(h wireHook) forge.Hook {
	return forge.Hook{ID: h.ID, URL: h.Config["url"], Events: h.Events, Active: h.Active}
}

func (c *client) Hook(ctx context.Context, id int64) (forge.Hook, error) {
	var found wireHook
	if err := c.do(ctx, http.MethodGet, c.hookPath(id), nil, nil, &found); err != nil {
		return forge.Hook{}, xerrors.Errorf("get webhook %d: %w", id, err)
	}
	return hookOf(found), nil
}

// PingHook sends a test delivery, of a push, which Gitea does for repositories only.
func (c *client) PingHook(ctx context.Context, id int64) error {
	if c.scope != forge.Repository {
		return xerrors.Errorf("test webhook: Gitea does that for repositories only: %w", forge.ErrUnsupported)
	}
	if err := c.do(ctx, http.MethodPost, c.hookPath(id)+"/tests", nil, nil, nil); err != nil {
		return xerrors.Errorf("test webhook %d: %w", id, err)
	}
	return nil
}

func (c *client) RemoveHook(ctx context.Context, id int64) error {
	if err := c.do(ctx, http.MethodDelete, c.hookPath(id), nil, nil, nil); err != nil {
		return xerrors.Errorf("remove webhook %d: %w", id, err)
	}
	return nil
}

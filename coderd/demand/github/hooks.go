package github

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/google/go-github/v92/github"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/rest"
)

// InstallHook makes the webhook, or brings the one of that id up to date.
func (c *client) InstallHook(ctx context.Context, address, secret string, id int64) (forge.Hook, error) {
	return c.Client.InstallHook(ctx, secret, id, func(exists bool) any {
		want := &github.Hook{
			Config: &github.HookConfig{
				ContentType: new("json"), InsecureSSL: new("0"), URL: &address, Secret: &secret,
			},
			Events: []string{rest.EventJob}, Active: new(true),
		}
		if !exists {
			want.Name = new("web")
		}
		return want
	})
}

func (c *client) PingHook(ctx context.Context, id int64) error {
	return c.PostHook(ctx, "ping", id, "/pings")
}

// Deliveries reads back, page by page, to the first that is older.
func (c *client) Deliveries(ctx context.Context, hook int64, since time.Time) ([]forge.Sent, error) {
	path, err := c.HookPath(hook, "/deliveries")
	if err != nil {
		return nil, err
	}
	var sent []forge.Sent
	query := url.Values{"per_page": {perPage}}
	for {
		var page []*github.HookDelivery
		resp, err := c.Sparing().Get(ctx, path, query, &page)
		if err != nil {
			return nil, xerrors.Errorf("list deliveries of webhook %d: %w", hook, err)
		}
		for _, d := range page {
			at := d.GetDeliveredAt().Time
			if at.Before(since) {
				return sent, nil
			}
			code := d.GetStatusCode()
			sent = append(sent, forge.Sent{
				ID: d.GetID(), GUID: d.GetGUID(), Event: d.GetEvent(), At: at.UTC(), OK: code >= 200 && code < 300,
			})
		}
		if resp.Cursor == "" || resp.Cursor == query.Get("cursor") {
			return sent, nil
		}
		query.Set("cursor", resp.Cursor)
	}
}

func (c *client) DeliveryBody(ctx context.Context, hook, id int64) ([]byte, error) {
	path, err := c.HookPath(hook, "/deliveries/"+strconv.FormatInt(id, 10))
	if err != nil {
		return nil, err
	}
	var found github.HookDelivery
	if _, err := c.Get(ctx, path, nil, &found); err != nil {
		return nil, xerrors.Errorf("get delivery %d: %w", id, err)
	}
	if found.Request == nil || found.Request.RawPayload == nil {
		return nil, xerrors.Errorf("get delivery %d: the forge has its body no more", id)
	}
	return *found.Request.RawPayload, nil
}

package github

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/google/go-github/v92/github"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// hooks is where webhooks are; enterprises have no API for theirs.
func (c *client) hooks(id int64, below string) (string, error) {
	if c.scope == forge.Enterprise {
		return "", xerrors.Errorf("an enterprise's webhooks are made by hand, in its settings: %w", forge.ErrUnsupported)
	}
	path := c.root + "/hooks"
	if id != 0 {
		path += "/" + strconv.FormatInt(id, 10)
	}
	return path + below, nil
}

// InstallHook makes the webhook, or sets the one that calls the address aright.
func (c *client) InstallHook(ctx context.Context, address, secret string) (forge.Hook, error) {
	path, err := c.hooks(0, "")
	if err != nil {
		return forge.Hook{}, err
	}
	if secret == "" {
		return forge.Hook{}, xerrors.New("a webhook without a secret is refused: anybody could call it")
	}
	there, err := c.hookAt(ctx, path, address)
	if err != nil {
		return forge.Hook{}, xerrors.Errorf("list webhooks: %w", hidden(err, c.root))
	}
	format, verify, active, name := "json", "0", true, "web"
	want := &github.Hook{
		Config: &github.HookConfig{ContentType: &format, InsecureSSL: &verify, URL: &address, Secret: &secret},
		Events: []string{eventJob}, Active: &active,
	}
	method := http.MethodPost
	if there != 0 {
		method, path = http.MethodPatch, path+"/"+strconv.FormatInt(there, 10)
	} else {
		want.Name = &name
	}
	var made github.Hook
	if _, err := c.do(ctx, method, path, want, &made); err != nil {
		return forge.Hook{}, xerrors.Errorf("install webhook: %w", hidden(err, c.root))
	}
	return hookOf(&made), nil
}

// hookAt is the id of the webhook that calls the address; 0: none does.
func (c *client) hookAt(ctx context.Context, path, address string) (int64, error) {
	var id int64
	err := c.pages(ctx, path, nil, func(path string, query url.Values) (*github.Response, error) {
		var page []*github.Hook
		resp, err := c.get(ctx, path, query, &page)
		for _, h := range page {
			if h.GetConfig().GetURL() == address && id == 0 {
				id = h.GetID()
			}
		}
		return resp, err
	})
	return id, err
}

func hookOf(h *github.Hook) forge.Hook {
	one := forge.Hook{ID: h.GetID(), URL: h.GetConfig().GetURL(), Events: h.Events, Active: h.GetActive()}
	status, _ := h.LastResponse["status"].(string)
	message, _ := h.LastResponse["message"].(string)
	if code, is := h.LastResponse["code"].(float64); is {
		status = strconv.Itoa(int(code)) + " " + cmp.Or(message, status)
	}
	if status != "unused" {
		one.LastStatus = status
	}
	return one
}

func (c *client) Hook(ctx context.Context, id int64) (forge.Hook, error) {
	path, err := c.hooks(id, "")
	if err != nil {
		return forge.Hook{}, err
	}
	var found github.Hook
	if _, err := c.get(ctx, path, nil, &found); err != nil {
		return forge.Hook{}, xerrors.Errorf("get webhook %d: %w", id, err)
	}
	return hookOf(&found), nil
}

func (c *client) PingHook(ctx context.Context, id int64) error {
	path, err := c.hooks(id, "/pings")
	if err != nil {
		return err
	}
	if _, err := c.do(ctx, http.MethodPost, path, nil, nil); err != nil {
		return xerrors.Errorf("ping webhook %d: %w", id, err)
	}
	return nil
}

func (c *client) RemoveHook(ctx context.Context, id int64) error {
	path, err := c.hooks(id, "")
	if err != nil {
		return err
	}
	if _, err := c.do(ctx, http.MethodDelete, path, nil, nil); err != nil {
		return xerrors.Errorf("remove webhook %d: %w", id, err)
	}
	return nil
}

// Deliveries reads back, page by page, to the first that is older.
func (c *client) Deliveries(ctx context.Context, hook int64, since time.Time) ([]forge.Sent, error) {
	path, err := c.hooks(hook, "/deliveries")
	if err != nil {
		return nil, err
	}
	var sent []forge.Sent
	query := url.Values{"per_page": {perPage}}
	for {
		if err := c.spare(); err != nil {
			return nil, xerrors.Errorf("list deliveries: %w", err)
		}
		var page []*github.HookDelivery
		resp, err := c.get(ctx, path, query, &page)
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
	path, err := c.hooks(hook, "/deliveries/"+strconv.FormatInt(id, 10))
	if err != nil {
		return nil, err
	}
	var found github.HookDelivery
	if _, err := c.get(ctx, path, nil, &found); err != nil {
		return nil, xerrors.Errorf("get delivery %d: %w", id, err)
	}
	if found.Request == nil || found.Request.RawPayload == nil {
		return nil, xerrors.Errorf("get delivery %d: the forge has its body no more", id)
	}
	return *found.Request.RawPayload, nil
}

package rest

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/google/go-github/v92/github"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
)

// maximumID is how long a delivery's id may be: the forges' are UUIDs.
const maximumID = 200

// Delivery reads the headers of a webhook: X-GitHub-Delivery, X-GitHub-Event. A signature that is none is as good as missing.
func (k Kind) Delivery(h http.Header, signature string) (forge.Delivery, error) {
	id, event := "X-"+k.Name+"-Delivery", "X-"+k.Name+"-Event"
	d := forge.Delivery{ID: h.Get(id), Event: h.Get(event)}
	if d.ID == "" || d.Event == "" {
		return forge.Delivery{}, xerrors.Errorf("the headers %s and %s are missing: not a delivery of %s", id, event, k.Name)
	}
	if len(d.ID) > maximumID || len(d.Event) > maximumID {
		return forge.Delivery{}, xerrors.Errorf("the headers %s and %s are too long", id, event)
	}
	if sum, err := hex.DecodeString(signature); err == nil && len(sum) > 0 {
		d.Signature = sum
	}
	return d, nil
}

// HookPath is where webhooks are, or one of them, or what is below that.
func (c *Client) HookPath(id int64, below string) (string, error) {
	path := c.Root + "/hooks"
	if id != 0 {
		path += "/" + strconv.FormatInt(id, 10)
	}
	return path + below, c.NoHooks
}

// Hooks are the webhooks that call an address.
func (c *Client) Hooks(ctx context.Context, address string) ([]forge.Hook, error) {
	path, err := c.HookPath(0, "")
	if err != nil {
		return nil, err
	}
	var found []forge.Hook
	seen := map[int64]bool{} // an older Gitea lists those of the instance whole, whatever page is asked for
	err = List(ctx, c, path, c.HooksQuery, func(page []*github.Hook) (int, int) {
		page = slices.DeleteFunc(page, func(h *github.Hook) bool { return seen[h.GetID()] })
		for _, h := range page {
			seen[h.GetID()] = true
			if h.GetConfig().GetURL() == address {
				found = append(found, hookOf(h))
			}
		}
		return len(page), -1
	})
	if err != nil {
		return nil, xerrors.Errorf("list webhooks: %w", c.Hidden(err))
	}
	return found, nil
}

// InstallHook makes the webhook that is wanted, or brings the one of that id up to date, where there is one.
func (c *Client) InstallHook(ctx context.Context, secret string, id int64, wanted func(exists bool) any) (forge.Hook, error) {
	if _, err := c.HookPath(0, ""); err != nil {
		return forge.Hook{}, err
	}
	if secret == "" {
		return forge.Hook{}, xerrors.New("a webhook without a secret is refused: anybody could call it")
	}
	var made github.Hook
	err := forge.ErrNotFound
	if id != 0 {
		err = c.atHook(ctx, "set", http.MethodPatch, id, "", wanted(true), &made)
	}
	if errors.Is(err, forge.ErrNotFound) {
		_, err = c.Do(ctx, http.MethodPost, c.Root+"/hooks", wanted(false), &made)
	}
	if err != nil {
		return forge.Hook{}, xerrors.Errorf("install webhook: %w", c.Hidden(err))
	}
	return hookOf(&made), nil
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

// Hook is the webhook of that id.
func (c *Client) Hook(ctx context.Context, id int64) (forge.Hook, error) {
	var found github.Hook
	if err := c.atHook(ctx, "get", http.MethodGet, id, "", nil, &found); err != nil {
		return forge.Hook{}, err
	}
	return hookOf(&found), nil
}

// RemoveHook removes one.
func (c *Client) RemoveHook(ctx context.Context, id int64) error {
	return c.atHook(ctx, "remove", http.MethodDelete, id, "", nil, nil)
}

// PostHook has the forge do what is at a path below a webhook.
func (c *Client) PostHook(ctx context.Context, doing string, id int64, below string) error {
	return c.atHook(ctx, doing, http.MethodPost, id, below, nil, nil)
}

func (c *Client) atHook(ctx context.Context, doing, method string, id int64, below string, body, into any) error {
	path, err := c.HookPath(id, below)
	if err != nil {
		return err
	}
	if _, err := c.Do(ctx, method, path, body, into); err != nil {
		return xerrors.Errorf("%s webhook %d: %w", doing, id, err)
	}
	return nil
}

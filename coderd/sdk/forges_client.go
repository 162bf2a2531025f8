package sdk

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// ForgeJobFilter narrows a listing of jobs; what is empty matches everything.
type ForgeJobFilter struct {
	Forge    string // name of an entity
	State    string // waiting, queued, in_progress or completed
	Template string
	Preset   string
	Unserved bool   // only those that nothing can serve
	Limit    int    // of one page; the server's choice where 0
	After    string // Next of the page before
}

// RunnerFilter narrows a listing of runners; what is empty matches everything.
type RunnerFilter struct {
	Forge    string // name of an entity
	Status   string // pending, idle, active, offline or gone
	Template string
	Preset   string
	Gone     bool   // also those that there are no more
	Limit    int    // of one page; the server's choice where 0
	After    string // Next of the page before
}

func queryOf(values map[string]string, flags map[string]bool, limit int) url.Values {
	query := url.Values{}
	for name, value := range values {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, set := range flags {
		if set {
			query.Set(name, "true")
		}
	}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return query
}

// ForgeJobs lists one page of the forges' jobs, newest first.
func (c *Client) ForgeJobs(ctx context.Context, f ForgeJobFilter) (ForgeJobList, error) {
	query := queryOf(map[string]string{
		"forge": f.Forge, "state": f.State, "template": f.Template, "preset": f.Preset, "after": f.After,
	}, map[string]bool{"unserved": f.Unserved}, f.Limit)
	return ask[ForgeJobList](ctx, c, call{
		method: http.MethodGet, path: []string{"forge-jobs"}, query: query, idempotent: true,
	})
}

// ForgeJob shows the attempts of a job, newest first. The job is named by the id of one attempt, or by the forge's number.
func (c *Client) ForgeJob(ctx context.Context, job string) ([]ForgeJob, error) {
	return get[[]ForgeJob](ctx, c, "forge-jobs", job)
}

// Runners lists one page of runners, newest first.
func (c *Client) Runners(ctx context.Context, f RunnerFilter) (RunnerList, error) {
	query := queryOf(map[string]string{
		"forge": f.Forge, "status": f.Status, "template": f.Template, "preset": f.Preset, "after": f.After,
	}, map[string]bool{"gone": f.Gone}, f.Limit)
	return ask[RunnerList](ctx, c, call{method: http.MethodGet, path: []string{"runners"}, query: query, idempotent: true})
}

// Runner shows one runner, named by its name or the id of its workspace.
func (c *Client) Runner(ctx context.Context, runner string) (Runner, error) {
	return get[Runner](ctx, c, "runners", runner)
}

// ForgeCredentials lists how Prewarm speaks to forges, without the secrets.
func (c *Client) ForgeCredentials(ctx context.Context) ([]ForgeCredential, error) {
	return get[[]ForgeCredential](ctx, c, "forges", "credentials")
}

// PutForgeCredential makes a credential, or changes what is given of one.
func (c *Client) PutForgeCredential(ctx context.Context, name string, req PutForgeCredential) (ForgeCredential, error) {
	return ask[ForgeCredential](ctx, c, call{
		method: http.MethodPut, path: []string{"forges", "credentials", name}, body: req, idempotent: true,
	})
}

// DeleteForgeCredential deletes one that no entity uses.
func (c *Client) DeleteForgeCredential(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"forges", "credentials", name}})
}

// Forges lists all entities, with how it goes with them.
func (c *Client) Forges(ctx context.Context) ([]ForgeEntity, error) {
	return get[[]ForgeEntity](ctx, c, "forges")
}

// Forge shows one entity.
func (c *Client) Forge(ctx context.Context, name string) (ForgeEntity, error) {
	return get[ForgeEntity](ctx, c, "forges", name)
}

// PutForge makes an entity, or changes what is given of one. It is not sent twice: a secret made by chance is told once.
func (c *Client) PutForge(ctx context.Context, name string, req PutForgeEntity) (SavedForgeEntity, error) {
	return ask[SavedForgeEntity](ctx, c, call{method: http.MethodPut, path: []string{"forges", name}, body: req})
}

// DeleteForge deletes an entity that no preset names and that has no runners.
func (c *Client) DeleteForge(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"forges", name}})
}

// StopForge has an entity's jobs make no demand until StartForge.
func (c *Client) StopForge(ctx context.Context, name, reason string) (ForgeEntity, error) {
	return ask[ForgeEntity](ctx, c, call{
		method: http.MethodPost, path: []string{"forges", name, "stop"}, body: StopForgeEntity{Reason: reason},
		idempotent: true,
	})
}

// StartForge undoes StopForge.
func (c *Client) StartForge(ctx context.Context, name string) (ForgeEntity, error) {
	return ask[ForgeEntity](ctx, c, call{method: http.MethodPost, path: []string{"forges", name, "start"}, idempotent: true})
}

// CheckForge asks the forge for what Prewarm needs of it, and changes nothing there.
func (c *Client) CheckForge(ctx context.Context, name string) (ForgeCheck, error) {
	return ask[ForgeCheck](ctx, c, call{method: http.MethodPost, path: []string{"forges", name, "check"}, idempotent: true})
}

// RotateForgeSecret gives an entity another webhook secret; the one before stays good for a while.
func (c *Client) RotateForgeSecret(ctx context.Context, name string, req RotateForgeSecret) (SavedForgeEntity, error) {
	return ask[SavedForgeEntity](ctx, c, call{method: http.MethodPost, path: []string{"forges", name, "rotate-secret"}, body: req})
}

// ResealForges seals all secrets of forges with the first key of the server's file.
func (c *Client) ResealForges(ctx context.Context) (Resealed, error) {
	return ask[Resealed](ctx, c, call{method: http.MethodPost, path: []string{"forges", "reseal"}, idempotent: true})
}

// ForgeHook shows the webhook that Prewarm installed, as the forge has it.
func (c *Client) ForgeHook(ctx context.Context, name string) (ForgeHook, error) {
	return get[ForgeHook](ctx, c, "forges", name, "webhook")
}

// InstallForgeHook makes the webhook at the forge, or brings it up to date.
func (c *Client) InstallForgeHook(ctx context.Context, name string) (ForgeHook, error) {
	return ask[ForgeHook](ctx, c, call{method: http.MethodPost, path: []string{"forges", name, "webhook"}, idempotent: true})
}

// PingForgeHook has the forge send a delivery, to see whether it arrives.
func (c *Client) PingForgeHook(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodPost, path: []string{"forges", name, "webhook", "ping"}})
}

// RemoveForgeHook removes the webhook at the forge.
func (c *Client) RemoveForgeHook(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"forges", name, "webhook"}, idempotent: true})
}

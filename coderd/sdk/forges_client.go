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
	var list ForgeJobList
	err := c.do(ctx, call{
		method: http.MethodGet, path: []string{"forge-jobs"}, query: query, into: &list, idempotent: true,
	})
	return list, err
}

// ForgeJob shows the attempts of a job, newest first. The job is named by the id of one attempt, or by the forge's number.
func (c *Client) ForgeJob(ctx context.Context, job string) ([]ForgeJob, error) {
	var jobs []ForgeJob
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"forge-jobs", job}, into: &jobs, idempotent: true})
	return jobs, err
}

// Runners lists one page of runners, newest first.
func (c *Client) Runners(ctx context.Context, f RunnerFilter) (RunnerList, error) {
	query := queryOf(map[string]string{
		"forge": f.Forge, "status": f.Status, "template": f.Template, "preset": f.Preset, "after": f.After,
	}, map[string]bool{"gone": f.Gone}, f.Limit)
	var list RunnerList
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"runners"}, query: query, into: &list, idempotent: true})
	return list, err
}

// Runner shows one runner, named by its name or the id of its workspace.
func (c *Client) Runner(ctx context.Context, runner string) (Runner, error) {
	var r Runner
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"runners", runner}, into: &r, idempotent: true})
	return r, err
}

// ForgeCredentials lists how Prewarm speaks to forges, without the secrets.
func (c *Client) ForgeCredentials(ctx context.Context) ([]ForgeCredential, error) {
	var list []ForgeCredential
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"forges", "credentials"}, into: &list, idempotent: true})
	return list, err
}

// PutForgeCredential makes a credential, or changes what is given of one.
func (c *Client) PutForgeCredential(ctx context.Context, name string, req PutForgeCredential) (ForgeCredential, error) {
	var made ForgeCredential
	err := c.do(ctx, call{
		method: http.MethodPut, path: []string{"forges", "credentials", name}, body: req, into: &made, idempotent: true,
	})
	return made, err
}

// DeleteForgeCredential deletes one that no entity uses.
func (c *Client) DeleteForgeCredential(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"forges", "credentials", name}})
}

// Forges lists all entities, with how it goes with them.
func (c *Client) Forges(ctx context.Context) ([]ForgeEntity, error) {
	var list []ForgeEntity
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"forges"}, into: &list, idempotent: true})
	return list, err
}

// Forge shows one entity.
func (c *Client) Forge(ctx context.Context, name string) (ForgeEntity, error) {
	var e ForgeEntity
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"forges", name}, into: &e, idempotent: true})
	return e, err
}

// PutForge makes an entity, or changes what is given of one. It is not sent twice: a secret made by chance is told once.
func (c *Client) PutForge(ctx context.Context, name string, req PutForgeEntity) (SavedForgeEntity, error) {
	var saved SavedForgeEntity
	err := c.do(ctx, call{method: http.MethodPut, path: []string{"forges", name}, body: req, into: &saved})
	return saved, err
}

// DeleteForge deletes an entity that no preset names and that has no runners.
func (c *Client) DeleteForge(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"forges", name}})
}

// StopForge has an entity's jobs make no demand until StartForge.
func (c *Client) StopForge(ctx context.Context, name, reason string) (ForgeEntity, error) {
	var e ForgeEntity
	err := c.do(ctx, call{
		method: http.MethodPost, path: []string{"forges", name, "stop"}, body: StopForgeEntity{Reason: reason}, into: &e,
		idempotent: true,
	})
	return e, err
}

// StartForge undoes StopForge.
func (c *Client) StartForge(ctx context.Context, name string) (ForgeEntity, error) {
	var e ForgeEntity
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"forges", name, "start"}, into: &e, idempotent: true})
	return e, err
}

// CheckForge asks the forge for what Prewarm needs of it, and changes nothing there.
func (c *Client) CheckForge(ctx context.Context, name string) (ForgeCheck, error) {
	var check ForgeCheck
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"forges", name, "check"}, into: &check, idempotent: true})
	return check, err
}

// RotateForgeSecret gives an entity another webhook secret; the one before stays good for a while.
func (c *Client) RotateForgeSecret(ctx context.Context, name string, req RotateForgeSecret) (SavedForgeEntity, error) {
	var saved SavedForgeEntity
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"forges", name, "rotate-secret"}, body: req, into: &saved})
	return saved, err
}

// ResealForges seals all secrets of forges with the first key of the server's file.
func (c *Client) ResealForges(ctx context.Context) (Resealed, error) {
	var resealed Resealed
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"forges", "reseal"}, into: &resealed, idempotent: true})
	return resealed, err
}

// ForgeHook shows the webhook that Prewarm installed, as the forge has it.
func (c *Client) ForgeHook(ctx context.Context, name string) (ForgeHook, error) {
	var hook ForgeHook
	err := c.do(ctx, call{method: http.MethodGet, path: []string{"forges", name, "webhook"}, into: &hook, idempotent: true})
	return hook, err
}

// InstallForgeHook makes the webhook at the forge, or brings it up to date.
func (c *Client) InstallForgeHook(ctx context.Context, name string) (ForgeHook, error) {
	var hook ForgeHook
	err := c.do(ctx, call{method: http.MethodPost, path: []string{"forges", name, "webhook"}, into: &hook, idempotent: true})
	return hook, err
}

// PingForgeHook has the forge send a delivery, to see whether it arrives.
func (c *Client) PingForgeHook(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodPost, path: []string{"forges", name, "webhook", "ping"}})
}

// RemoveForgeHook removes the webhook at the forge.
func (c *Client) RemoveForgeHook(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: []string{"forges", name, "webhook"}, idempotent: true})
}

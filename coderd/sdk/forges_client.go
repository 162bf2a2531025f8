package sdk

import (
	"context"
)

// ForgeJobFilter narrows a listing of jobs; what is empty matches everything.
type ForgeJobFilter struct {
	Forge    string `query:"forge" doc:"Name of an entity"`
	State    string `query:"state" enum:"waiting,queued,in_progress,completed"`
	Template string `query:"template"`
	Preset   string `query:"preset"`
	Q        string `query:"q" maxLength:"200" doc:"Words, each a part of the repository, job, workflow, labels, runner, forge or pool, in any case"`
	Unserved bool   `query:"unserved" doc:"Only those that nothing can serve"`
	Limit    int32  `query:"limit" minimum:"1" maximum:"500" default:"100"`
	After    string `query:"after" doc:"What the page before gave as next"`
}

// RunnerFilter narrows a listing of runners; what is empty matches everything.
type RunnerFilter struct {
	Forge    string `query:"forge" doc:"Name of an entity"`
	Status   string `query:"status" enum:"pending,idle,active,offline,gone" doc:"At the forge; gone implies gone=true"`
	Template string `query:"template"`
	Preset   string `query:"preset"`
	Q        string `query:"q" maxLength:"200" doc:"Words, each a part of the name, the pool, the forge, the labels or the job, in any case"`
	Gone     bool   `query:"gone" doc:"Also those that there are no more"`
	Limit    int32  `query:"limit" minimum:"1" maximum:"500" default:"100"`
	After    string `query:"after" doc:"What the page before gave as next"`
}

// ForgeJobs lists one page of the forges' jobs, newest first.
func (c *Client) ForgeJobs(ctx context.Context, f ForgeJobFilter) (ForgeJobList, error) {
	return ask[ForgeJobList](ctx, c, read("forge-jobs").filtered(f))
}

// ForgeJob shows the attempts of a job, newest first. The job is named by the id of one attempt, or by the forge's number.
func (c *Client) ForgeJob(ctx context.Context, job string) ([]ForgeJob, error) {
	return get[[]ForgeJob](ctx, c, "forge-jobs", job)
}

// Runners lists one page of runners, newest first.
func (c *Client) Runners(ctx context.Context, f RunnerFilter) (RunnerList, error) {
	return ask[RunnerList](ctx, c, read("runners").filtered(f))
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
	return ask[ForgeCredential](ctx, c, put("forges", "credentials", name).with(req).repeatable())
}

// DeleteForgeCredential deletes one that no entity uses.
func (c *Client) DeleteForgeCredential(ctx context.Context, name string) error {
	return c.do(ctx, remove("forges", "credentials", name))
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
	return ask[SavedForgeEntity](ctx, c, put("forges", name).with(req))
}

// DeleteForge deletes an entity that no preset names and that has no runners.
func (c *Client) DeleteForge(ctx context.Context, name string) error {
	return c.do(ctx, remove("forges", name))
}

// StopForge has no new runners made for an entity until StartForge; with drain, its idle ones go.
func (c *Client) StopForge(ctx context.Context, name string, req StopForgeEntity) (ForgeEntity, error) {
	return ask[ForgeEntity](ctx, c, post("forges", name, "stop").with(req).repeatable())
}

// StartForge undoes StopForge.
func (c *Client) StartForge(ctx context.Context, name string) (ForgeEntity, error) {
	return ask[ForgeEntity](ctx, c, post("forges", name, "start").repeatable())
}

// CheckForge asks the forge for what Prewarm needs of it, and changes nothing there.
func (c *Client) CheckForge(ctx context.Context, name string) (ForgeCheck, error) {
	return ask[ForgeCheck](ctx, c, post("forges", name, "check").repeatable())
}

// RotateForgeSecret gives an entity another webhook secret; the one before stays good for a while.
func (c *Client) RotateForgeSecret(ctx context.Context, name string, req RotateForgeSecret) (SavedForgeEntity, error) {
	return ask[SavedForgeEntity](ctx, c, post("forges", name, "rotate-secret").with(req))
}

// ResealForges seals all secrets of forges with the first key of the server's file.
func (c *Client) ResealForges(ctx context.Context) (Resealed, error) {
	return ask[Resealed](ctx, c, post("forges", "reseal").repeatable())
}

// ForgeHook shows the webhook that Prewarm installed, as the forge has it.
func (c *Client) ForgeHook(ctx context.Context, name string) (ForgeHook, error) {
	return get[ForgeHook](ctx, c, "forges", name, "webhook")
}

// TakeOverForgeHook is InstallForgeHook that makes webhooks of the same URL that a person made ours.
func (c *Client) TakeOverForgeHook(ctx context.Context, name string) (ForgeHook, error) {
	return ask[ForgeHook](ctx, c, post("forges", name, "webhook").where(query{"take_over": true}).repeatable())
}

// InstallForgeHook makes the webhook at the forge, or brings it up to date.
func (c *Client) InstallForgeHook(ctx context.Context, name string) (ForgeHook, error) {
	return ask[ForgeHook](ctx, c, post("forges", name, "webhook").repeatable())
}

// PingForgeHook has the forge send a delivery, to see whether it arrives.
func (c *Client) PingForgeHook(ctx context.Context, name string) error {
	return c.do(ctx, post("forges", name, "webhook", "ping"))
}

// RemoveForgeHook removes the webhook at the forge.
func (c *Client) RemoveForgeHook(ctx context.Context, name string) error {
	return c.do(ctx, remove("forges", name, "webhook").repeatable())
}

package sdk

import (
	"context"
	"io"
)

// WorkspaceFilter narrows a listing; empty fields match everything.
type WorkspaceFilter struct {
	State    string `query:"state" enum:"provisioning,starting,ready,standby,claimed,draining,deleting,deleted,quarantined" doc:"All but the deleted where empty"`
	Template string `query:"template"`
	Preset   string `query:"preset"`
	Owner    string `query:"owner" doc:"Name of a user"`
	Q        string `query:"q" maxLength:"200" doc:"Words, each a part of the name, the pool, the owner, the provider or its id there, in any case"`
	Limit    int32  `query:"limit" minimum:"1" maximum:"500" default:"100"`
	After    string `query:"after" doc:"What the page before gave as next"`
}

// Workspaces lists one page.
func (c *Client) Workspaces(ctx context.Context, f WorkspaceFilter) (WorkspaceList, error) {
	return ask[WorkspaceList](ctx, c, read("workspaces").filtered(f))
}

// Workspace looks one up by name or id, with its history.
func (c *Client) Workspace(ctx context.Context, ref string) (Workspace, error) {
	return get[Workspace](ctx, c, "workspaces", ref)
}

// WorkspaceLogs returns the workspace's output from the beginning, which the caller closes; with follow it goes on
// until the workspace is gone or ctx ends.
func (c *Client) WorkspaceLogs(ctx context.Context, ref string, follow bool) (io.ReadCloser, error) {
	resp, err := c.send(ctx, read("workspaces", ref, "logs").where(query{"follow": follow}))
	if err != nil {
		return nil, err
	}
	return resp.Body, nil
}

// ReleaseWorkspace ends the claim on a workspace. It is not retried: the second answer would be that there is no claim.
func (c *Client) ReleaseWorkspace(ctx context.Context, ref string) (Workspace, error) {
	return ask[Workspace](ctx, c, post("workspaces", ref, "release"))
}

// RenewWorkspace makes the lease of a claimed workspace last longer, from now on: as long as it was asked for at first where
// lease is empty.
func (c *Client) RenewWorkspace(ctx context.Context, ref, lease string) (Workspace, error) {
	return ask[Workspace](ctx, c, post("workspaces", ref, "renew").with(RenewRequest{Lease: lease}).repeatable())
}

// RetryWorkspace tries a quarantined workspace anew.
func (c *Client) RetryWorkspace(ctx context.Context, ref string) (Workspace, error) {
	return ask[Workspace](ctx, c, post("workspaces", ref, "retry"))
}

// KeepWorkspace puts an unclaimed workspace into quarantine, to look into it, or keeps a quarantined one for longer.
func (c *Client) KeepWorkspace(ctx context.Context, ref string, req KeepRequest) (Workspace, error) {
	return ask[Workspace](ctx, c, post("workspaces", ref, "keep").with(req).repeatable())
}

// DeleteAbandoningRunner deletes a workspace without its forge's word on the runner that it is (P7). It may be going
// already, and wait for that word.
func (c *Client) DeleteAbandoningRunner(ctx context.Context, ref string, force bool) (Workspace, error) {
	return ask[Workspace](ctx, c, remove("workspaces", ref).where(query{"abandon_runner": true, "force": force}).repeatable())
}

// DeleteWorkspace deletes a workspace, also a claimed one. With force the provider's errors do not stop it.
func (c *Client) DeleteWorkspace(ctx context.Context, ref string, force bool) (Workspace, error) {
	return ask[Workspace](ctx, c, remove("workspaces", ref).where(query{"force": force}).repeatable())
}

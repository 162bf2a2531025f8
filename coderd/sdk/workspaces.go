package sdk

import (
	"context"
	"io"
)

// WorkspaceFilter narrows a listing; empty fields match everything.
type WorkspaceFilter struct {
	Q        string // words, each a part of what an entry is found by, in any case
	State    string
	Template string
	Preset   string
	Owner    string
	Limit    int    // of one page; the server's choice where 0
	After    string // Next of the page before
}

// Workspaces lists one page.
func (c *Client) Workspaces(ctx context.Context, f WorkspaceFilter) (WorkspaceList, error) {
	return ask[WorkspaceList](ctx, c, read("workspaces").where(query{
		"state": f.State, "template": f.Template, "preset": f.Preset, "owner": f.Owner, "q": f.Q, "limit": f.Limit, "after": f.After,
	}))
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

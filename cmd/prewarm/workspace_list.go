package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) workspaceListCommand() *cobra.Command {
	var filter sdk.WorkspaceFilter
	var limit int
	cmd := newCommand("list", "List workspaces",
		`Lists workspaces, newest first: all that you may see, page after page, unless --limit ends it. States
are provisioning, starting, ready, standby, claimed, draining, deleting, deleted and quarantined.`,
		`  prewarm workspace list
  prewarm workspace list --state ready --template quickstart
  prewarm workspace list --owner alice -o json
  prewarm workspace list --filter "ide ali"`,
		list(a, view[sdk.Workspace]{
			ask: func(c *sdk.Client, ctx context.Context, _ string) ([]sdk.Workspace, error) {
				return readPages(limit, func(size int, after string) ([]sdk.Workspace, string, error) {
					filter.Limit, filter.After = int32(size), after
					page, err := c.Workspaces(ctx, filter)
					return page.Workspaces, page.Next, err
				})
			},
			text: a.workspacesText, none: "There are no such workspaces. Pools are shown by: prewarm preset list",
		}))
	cmd.PreRunE = func(*cobra.Command, []string) error { return checkLimit(limit) }
	cmd.Flags().StringVar(&filter.State, "state", "", "only those in this state")
	cmd.Flags().StringVar(&filter.Template, "template", "", "only those of this template")
	cmd.Flags().StringVar(&filter.Preset, "preset", "", "only those of presets of this name")
	cmd.Flags().StringVar(&filter.Owner, "owner", "", "only those of this user")
	filterFlag(cmd, &filter.Q, "the name, the pool, the owner, the provider or its id there")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many; 0 is all")
	a.completeFlag(cmd, "template", "TEMPLATE")
	oneOf(cmd, "state", "provisioning", "starting", "ready", "standby", "claimed", "draining", "deleting", "deleted", "quarantined")
	return cmd
}

// trouble is what is wrong with a workspace, or else with the work on it.
func trouble(w sdk.Workspace) string {
	if w.Fault == "" && w.Job != nil && w.Job.Failures > 0 {
		return fmt.Sprintf("%s failed %s: %s", w.Job.Kind, times(w.Job.Failures), w.Job.LastError)
	}
	return w.Fault
}

func (a *app) workspacesText(workspaces []sdk.Workspace) string {
	t := a.newTable("NAME", "PRESET", "VERSION", "STATE", "SINCE", "OWNER", "LEASE ENDS", "PROVIDER", "FAULT")
	for _, w := range workspaces {
		t.add(w.Name, w.Template+"/"+w.Preset, w.Version, stateCell(w.State), a.ago(w.StateAt), w.Owner,
			a.agoOr(w.LeaseUntil, ""), w.Provider, cell{trouble(w), red})
	}
	return t.String()
}

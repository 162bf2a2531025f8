package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) workspaceDeleteCommand() *cobra.Command {
	var force, abandon bool
	cmd := newCommand("delete WORKSPACE", "Delete a workspace, claimed or not",
		`Deletes a workspace and all that is in it, even one that somebody is using; to give back your own, use
"release". If its pool is then short of one, another is made.

With --force errors of the provider do not stop it. The workspace counts as deleted, and what it may have left at the
provider is looked for later.

The runner of a forge is unregistered first; while it has a job, it is not deleted, whatever the flags. An owner may do
without the forge's word, as when the forge is gone for good, with --abandon-runner: what is left there is removed later.`,
		"  prewarm workspace delete prebuild-aebagbafaydqqcikbmga2 --yes",
		show(a, func(c *sdk.Client, ctx context.Context, ref string) (sdk.Workspace, error) {
			if abandon {
				return c.DeleteAbandoningRunner(ctx, ref, force)
			}
			return c.DeleteWorkspace(ctx, ref, force)
		}, stateText("Deleting")))
	cmd.ValidArgsFunction = a.completeStates("claimed", "quarantined", "ready", "standby", "starting", "provisioning", "draining")
	cmd.Flags().BoolVar(&force, "force", false, "do not let errors of the provider stop it")
	cmd.Flags().BoolVar(&abandon, "abandon-runner", false, "do not ask the forge about the runner that it is")
	a.confirmFirst(cmd, "Delete workspace %s for good?")
	return cmd
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) workspaceDeleteCommand() *cobra.Command {
	var force, yes bool
	cmd := &cobra.Command{
		Use:   "delete WORKSPACE",
		Short: "Delete a workspace, claimed or not",
		Long: `Deletes a workspace and all that is in it, even one that somebody is using; to give back your own, use
"release". If its pool is then short of one, another is made.

With --force errors of the provider do not stop it: the workspace counts as deleted, and what may be left of it at the
provider is looked for later.`,
		Example:           "  prewarm workspace delete prebuild-aebagbafaydqqcikbmga2 --yes",
		Args:              exactArgs,
		ValidArgsFunction: a.completeWorkspaces,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.confirm(cmd.Context(), fmt.Sprintf("Delete workspace %s for good?", args[0]), yes); err != nil {
				return err
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			w, err := client.DeleteWorkspace(cmd.Context(), args[0], force)
			if err != nil {
				return err
			}
			return a.printState(w, "Deleting")
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "do not let errors of the provider stop it")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask; only a terminal is asked")
	return cmd
}

package main

import (
	"github.com/spf13/cobra"
)

func (a *app) workspaceRetryCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "retry WORKSPACE",
		Short: "Try a quarantined workspace anew",
		Long: `Gives a quarantined workspace back to its pool, once what was wrong with it is mended: it is asked for readiness
again, with its boot timeout from now on, or created anew if its provider never made anything of it. Its pool must be
short of one.`,
		Example: "  prewarm workspace retry prebuild-aebagbafaydqqcikbmga2",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			w, err := client.RetryWorkspace(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.printState(w, "Retrying")
		},
	}
}

package main

import (
	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) templateRollbackCommand() *cobra.Command {
	var version int
	var reason string
	cmd := &cobra.Command{
		Use:   "rollback TEMPLATE",
		Short: "Make the version that was active before the active one again",
		Long: `Makes the version that was active before the active one again, or the one given by --to. What is left of its
prebuilds is current again at once; those of the version that is left go, and its pending creates are cancelled.

Settings and presets stay what they are: they are no part of a version. Applying the same file again activates the
version of that file again.`,
		Example: "  prewarm template rollback quickstart\n  prewarm template rollback quickstart --to 3 --reason 'image is broken'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if version < 0 || cmd.Flags().Changed("to") && version == 0 {
				return usageErrorf("--to must be the number of a version, 1 or more")
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			done, err := client.RollbackTemplate(cmd.Context(), args[0], sdk.RollbackRequest{Version: version, Reason: reason})
			if err != nil {
				return err
			}
			return a.printf(done, "Rolled back %s from version %d to version %d.\n", done.Template, done.From, done.To)
		},
	}
	cmd.Flags().IntVar(&version, "to", 0, "the number of the version to go back to")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return cmd
}

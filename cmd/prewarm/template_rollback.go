package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) templateRollbackCommand() *cobra.Command {
	var req sdk.RollbackRequest
	cmd := newCommand("rollback TEMPLATE", "Make the version that was active before the active one again",
		`Makes the version that was active before the active one again, or the one given by --to. What is left of its
prebuilds is current again at once; those of the version that is left go, and its pending creates are cancelled.

Settings and presets stay what they are: they are no part of a version. Applying the same file again activates the
version of that file again.`,
		"  prewarm template rollback quickstart\n  prewarm template rollback quickstart --to 3 --reason 'image is broken'",
		show(a, func(c *sdk.Client, ctx context.Context, name string) (sdk.RollbackResult, error) {
			return c.RollbackTemplate(ctx, name, req)
		}, func(done sdk.RollbackResult) string {
			return fmt.Sprintf("Rolled back %s from version %d to version %d.\n", done.Template, done.From, done.To)
		}))
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error { return checkVersion(cmd, "to", req.Version) }
	cmd.Flags().IntVar(&req.Version, "to", 0, "the number of the version to go back to")
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why, for the audit log")
	return cmd
}

// checkVersion checks a flag that is the number of a version, or not given.
func checkVersion(cmd *cobra.Command, flag string, number int) error {
	return usageErrorIf(number < 0 || cmd.Flags().Changed(flag) && number == 0,
		"--%s must be the number of a version, 1 or more", flag)
}

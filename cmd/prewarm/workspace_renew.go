package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) workspaceRenewCommand() *cobra.Command {
	var lease time.Duration
	cmd := newCommand("renew WORKSPACE", "Renew the lease of a claimed workspace",
		`Makes the lease of your claim last longer: from now on as long as it was asked for, or as --lease says. A
workspace whose lease is over is released by itself.`,
		`  prewarm workspace renew prebuild-aebagbafaydqqcikbmga2
  prewarm workspace renew prebuild-aebagbafaydqqcikbmga2 --lease 8h`,
		show(a, func(c *sdk.Client, ctx context.Context, ref string) (sdk.Workspace, error) {
			return c.RenewWorkspace(ctx, ref, given(lease))
		}, func(w sdk.Workspace) string {
			return fmt.Sprintf("Renewed workspace %s: its lease ends %s.\n", w.Name, a.agoOr(w.LeaseUntil, "never"))
		}))
	cmd.ValidArgsFunction = a.completeStates("claimed")
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		return usageErrorIf(cmd.Flags().Changed("lease") && lease < time.Second, "--lease must be at least 1s")
	}
	cmd.Flags().DurationVar(&lease, "lease", 0, "how long from now; as it was asked for at first where left out")
	return cmd
}

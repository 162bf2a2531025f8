package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) workspaceKeepCommand() *cobra.Command {
	var keep time.Duration
	var reason string
	cmd := newCommand("keep WORKSPACE", "Keep an unclaimed workspace for inspection",
		`Takes an unclaimed workspace out of its pool, so that you can look into it. It is quarantined, never
claimed and left alone by passes. Its pool builds another. One that is quarantined is kept for longer. When the time
is over it is deleted. "prewarm workspace retry" gives it back to its pool.`,
		`  prewarm workspace keep prebuild-aebagbafaydqqcikbmga2 --reason "its disk is full" --for 8h`,
		show(a, func(c *sdk.Client, ctx context.Context, ref string) (sdk.Workspace, error) {
			return c.KeepWorkspace(ctx, ref, sdk.KeepRequest{Reason: reason, For: keep.String()})
		}, func(w sdk.Workspace) string {
			return fmt.Sprintf("Kept workspace %s: it is %s, and goes %s.\n", w.Name, w.State, a.agoOr(w.ExpiresAt, "never"))
		}))
	cmd.ValidArgsFunction = a.completeStates("ready", "standby", "starting", "quarantined")
	cmd.PreRunE = func(*cobra.Command, []string) error {
		return usageErrorIf(reason == "", "--reason is missing: say why, for others who find it")
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for others who find it and for the audit log")
	cmd.Flags().DurationVar(&keep, "for", 24*time.Hour, "how long from now")
	return cmd
}

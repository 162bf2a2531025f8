package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) workspaceExecCommand() *cobra.Command {
	cmd := newCommand("exec WORKSPACE -- COMMAND...", "Run a command in a workspace",
		`Runs a command in a workspace that you claimed, with its directory and environment, where its provider
can. If this is a terminal the command gets one too. The status is that of the command.`,
		`  prewarm workspace exec prebuild-aebagbafaydqqcikbmga2 -- sh
  tar c . | prewarm workspace exec prebuild-aebagbafaydqqcikbmga2 -- tar x`,
		a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			return endWith(a.execIn(ctx, c, args[0], args[1:]))
		}))
	cmd.PreRunE = a.unanswered("the output is the command's")
	cmd.ValidArgsFunction = a.completeStates("claimed")
	cmd.Args = commandAfterDash
	return cmd
}

// commandAfterDash are the arguments WORKSPACE -- COMMAND...
func commandAfterDash(cmd *cobra.Command, args []string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case len(args) == 0 || dash == 0:
		return usageErrorf("WORKSPACE is missing")
	case len(args) == 1:
		return usageErrorf("COMMAND is missing: write it after --")
	case dash != 1:
		return usageErrorf("write the command after --, so that its flags are its own")
	}
	return nil
}

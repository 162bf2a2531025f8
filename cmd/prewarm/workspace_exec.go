package main

import (
	"github.com/spf13/cobra"
)

func (a *app) workspaceExecCommand() *cobra.Command {
	cmd := newCommand("exec WORKSPACE -- COMMAND...", "Run a command in a workspace",
		`Runs a command in a workspace that you claimed, with its directory and environment, where its provider
can. If this is a terminal the command gets one too. The status is that of the command.`,
		`  prewarm workspace exec prebuild-aebagbafaydqqcikbmga2 -- sh
  tar c . | prewarm workspace exec prebuild-aebagbafaydqqcikbmga2 -- tar x`,
		func(cmd *cobra.Command, args []string) error {
			if a.output != "table" {
				return usageErrorf("the output is the command's, so -o %s cannot be", a.output)
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			return endWith(a.execIn(cmd.Context(), client, args[0], args[1:]))
		})
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

package main

import (
	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) workspaceRetryCommand() *cobra.Command {
	cmd := newCommand("retry WORKSPACE", "Try a quarantined workspace again, or the apply for an owner that failed",
		`Gives a quarantined workspace back to its pool, once its fault is fixed. It is asked for readiness
again, with its boot timeout from now on. It is created again if its provider never made anything. Its pool must be
short of one.

A claimed workspace that could not be applied for its owner (apply_on_claim) is applied again. It stays with its owner, whatever
comes of that.`,
		"  prewarm workspace retry prebuild-aebagbafaydqqcikbmga2",
		show(a, (*sdk.Client).RetryWorkspace, stateText("Retrying")))
	cmd.ValidArgsFunction = a.completeStates("quarantined")
	return cmd
}

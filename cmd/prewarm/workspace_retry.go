package main

import (
	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) workspaceRetryCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "retry WORKSPACE",
		ValidArgsFunction: a.completeStates("quarantined"),
		Short:             "Try a quarantined workspace again",
		Long: `Gives a quarantined workspace back to its pool, once its fault is fixed. It is asked for readiness
again, with its boot timeout from now on. It is created again if its provider never made anything. Its pool must be
short of one.`,
		Example: "  prewarm workspace retry prebuild-aebagbafaydqqcikbmga2",
		RunE:    show(a, (*sdk.Client).RetryWorkspace, stateText("Retrying")),
	}
}

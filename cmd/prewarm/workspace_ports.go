package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) workspacePortsCommand() *cobra.Command {
	cmd := newCommand("ports WORKSPACE", "List the ports on which something in a workspace listens",
		`Lists the TCP ports in a workspace that you claimed on which something listens, with its process where the agent can see
that. Each can be reached with "prewarm port-forward". Workspaces of the providers local and hosts share the ports of their machine.`,
		"  prewarm workspace ports prebuild-aebagbafaydqqcikbmga2",
		list(a, view[sdk.Port]{
			ask: func(c *sdk.Client, ctx context.Context, ref string) ([]sdk.Port, error) { return c.Ports(ctx, ref) },
			text: func(ports []sdk.Port) string {
				t := a.newTable("PORT", "PROCESS", "PID")
				for _, p := range ports {
					pid := any("")
					if p.PID != 0 {
						pid = p.PID
					}
					t.add(p.Port, p.Process, pid)
				}
				return t.String()
			},
			none: "Nothing listens in the workspace.",
		}))
	cmd.ValidArgsFunction = a.completeStates("claimed")
	return cmd
}

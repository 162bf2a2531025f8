package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) providerDeleteCommand() *cobra.Command {
	var force bool
	cmd := newCommand("delete PROVIDER", "Delete a provider",
		`Deletes a provider: nothing is created there any more. It is listed until an inventory finds nothing there. To have it
again, apply a file that declares it.

While templates use it or workspaces live there, it is refused, with a list of them. With --force it is deleted all the same:
pools on it run empty, and claims from them miss. A prebuild that the provider does not delete at once is given up, so that
nothing waits for a provider that is gone. Claimed workspaces stay until they are released. What was left there is in the
audit log ("prewarm audit").`,
		"  prewarm provider delete old-cloud\n  prewarm provider delete old-cloud --force --yes",
		show(a, func(c *sdk.Client, ctx context.Context, name string) (sdk.Provider, error) {
			return c.DeleteProvider(ctx, name, force)
		}, func(p sdk.Provider) string {
			text := fmt.Sprintf("Deleted provider %s.\n", p.Name)
			if p.Claimed+p.Unclaimed > 0 {
				text += fmt.Sprintf("Left there: %d claimed, which stay until they are released, and %d not claimed, which go.\n", p.Claimed, p.Unclaimed)
			}
			return text
		}))
	cmd.Flags().BoolVar(&force, "force", false, "also while it is in use, or does not answer")
	a.confirmFirst(cmd, "Delete provider %s?")
	return cmd
}

package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) resumeCommand() *cobra.Command {
	cmd := newCommand("resume SCOPE [TARGET]", "End a pause",
		`Ends the pause of a scope: `+scopesHelp+`. The pools are
looked at again at once. A pause of another scope that covers the same presets goes on; "prewarm pause list" shows
them.`,
		`  prewarm resume global
  prewarm resume preset quickstart/default`,
		a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			scope, target := scopeOf(args)
			if err := c.Resume(ctx, scope, target); err != nil {
				return err
			}
			return a.printf(map[string]string{"scope": scope, "target": target}, "Resumed %s.\n", strings.Join(args, " "))
		}))
	cmd.Args = scopeArgs
	cmd.ValidArgsFunction = a.completePauses(true)
	return cmd
}

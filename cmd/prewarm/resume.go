package main

import (
	"strings"

	"github.com/spf13/cobra"
)

func (a *app) resumeCommand() *cobra.Command {
	cmd := newCommand("resume SCOPE [TARGET]", "End a pause",
		`Ends the pause of a scope: `+scopesHelp+`. The pools are
looked at again at once. A pause of another scope that covers the same presets goes on; "prewarm pause list" shows
them.`,
		`  prewarm resume global
  prewarm resume preset quickstart/default`,
		func(cmd *cobra.Command, args []string) error {
			client, err := a.client()
			if err != nil {
				return err
			}
			scope, target := scopeOf(args)
			if err := client.Resume(cmd.Context(), scope, target); err != nil {
				return err
			}
			return a.printf(map[string]string{"scope": scope, "target": target}, "Resumed %s.\n", strings.Join(args, " "))
		})
	cmd.Args = scopeArgs
	cmd.ValidArgsFunction = a.completePauses(true)
	return cmd
}

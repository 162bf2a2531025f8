package main

import "github.com/spf13/cobra"

func (a *app) importCommand() *cobra.Command {
	return a.group("import", "Write a configuration file of what another tool has",
		`Reads what was written for another tool, and writes it as a file that "prewarm apply" takes. Nothing is sent to
the server, and nothing is run.`,
		"  prewarm import coder ./docker > docker.yaml",
		a.importCoderCommand())
}

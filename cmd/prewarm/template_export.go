package main

import (
	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) templateExportCommand() *cobra.Command {
	return newCommand("export TEMPLATE", "Write a template as a file to apply",
		`Writes a template with its presets as YAML, as "prewarm apply" takes it. Applied, the file changes nothing. Settings
at their defaults are left out; the order is always the same, so that two exports can be compared. The provider is named, but
is not in the file. After a rollback, the file has the version that is active now.`,
		`  prewarm template export quickstart > quickstart.yaml
  prewarm apply -f quickstart.yaml --dry-run`,
		show(a, (*sdk.Client).ExportTemplate, func(f sdk.TemplateFile) string { return f.Document }))
}

package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"
)

// cliDocsCommand writes docs/cli.md. It is hidden: only "make gen" has a use for it.
func (a *app) cliDocsCommand() *cobra.Command {
	cmd := newCommand("cli-docs", "Write the reference of all commands as Markdown",
		"Writes the reference of all commands as Markdown.",
		"  prewarm cli-docs > docs/cli.md",
		func(cmd *cobra.Command, _ []string) error {
			var out strings.Builder
			out.WriteString("# The command line\n\n<!-- Made by \"make gen\" from cmd/prewarm; do not edit. -->\n")
			writeCommandDocs(&out, cmd.Root())
			return a.write(out.String())
		})
	cmd.Hidden = true
	return cmd
}

// indented are lines that a help text sets apart, such as a list of variables.
var indented = regexp.MustCompile(`(?m)^  .*(?:\n  .*)*`)

func writeCommandDocs(out *strings.Builder, cmd *cobra.Command) {
	if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
		return
	}
	_, _ = fmt.Fprintf(out, "\n## %s\n\n%s\n", cmd.CommandPath(), indented.ReplaceAllString(cmd.Long, "```\n$0\n```"))
	if cmd.Runnable() && !cmd.HasAvailableSubCommands() || cmd.Flags().HasAvailableFlags() && cmd.HasParent() {
		_, _ = fmt.Fprintf(out, "\n```\n%s\n```\n", cmd.UseLine())
	}
	if flags := cmd.NonInheritedFlags(); flags.HasAvailableFlags() {
		_, _ = fmt.Fprintf(out, "\n```\n%s```\n", flags.FlagUsages())
	}
	if cmd.Example != "" {
		_, _ = fmt.Fprintf(out, "\nFor example:\n\n```sh\n%s\n```\n", strings.ReplaceAll(cmd.Example[2:], "\n  ", "\n"))
	}
	for _, sub := range cmd.Commands() {
		writeCommandDocs(out, sub)
	}
}

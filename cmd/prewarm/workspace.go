package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) workspaceCommand() *cobra.Command {
	return a.group("workspace", "See, enter, renew, release, retry and delete workspaces",
		`A workspace is one instance at a provider, with or without an owner. Commands name it by its name or its id.`,
		"  prewarm workspace list --state claimed",
		a.workspaceListCommand(), a.workspaceShowCommand(), a.workspaceLogsCommand(), a.workspaceExecCommand(),
		a.workspacePortsCommand(), a.workspaceLinkCommand(), a.workspaceRenewCommand(), a.workspaceReleaseCommand(), a.workspaceRetryCommand(),
		a.workspaceKeepCommand(), a.workspaceDeleteCommand())
}

// stateText says of a workspace what was asked of it, and what it is now.
func stateText(done string) func(sdk.Workspace) string {
	return func(w sdk.Workspace) string {
		return fmt.Sprintf("%s workspace %s: it is %s.\n", done, w.Name, w.State)
	}
}

// confirmFirst has a command ask a question about its argument before it does what cannot be undone.
func (a *app) confirmFirst(cmd *cobra.Command, question string) {
	yes := cmd.Flags().BoolP("yes", "y", false, "do not ask; only a terminal is asked")
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		return a.confirm(cmd.Context(), fmt.Sprintf(question, args[0]), *yes)
	}
}

// confirm asks a person before something that cannot be undone. A program is not asked: it says what it means.
func (a *app) confirm(ctx context.Context, question string, yes bool) error {
	if _, ok := terminal(a.stdin); !ok || yes {
		return nil
	}
	_, _ = fmt.Fprintf(a.stderr, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() { // a read from a terminal cannot be interrupted, but it can be left behind
		line, _ := bufio.NewReader(a.stdin).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case <-ctx.Done():
		_, _ = fmt.Fprintln(a.stderr)
		return ctx.Err()
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
		return xerrors.New("nothing was done")
	}
}

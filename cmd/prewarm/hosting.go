//go:build linux

package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker"
	"github.com/prewarm-dev/prewarm/coderd/provider/kubernetes"
)

// hosting is what this binary can be beside a client, on Linux: the server, and parts of workspaces.
type hosting struct {
	serve func(context.Context, coderd.Options) error
	own   string // how a shell runs this program; where empty, as prewarm
}

func (a *app) host() { a.serve, a.own = coderd.Run, ownCommand(os.Args[0]) }

// branchOff runs what the process was started for, if that is a part of a workspace, and ends it, before anything else is set up.
// A supervisor of a local workspace does not get here: the init of its package runs it.
func branchOff(args []string) {
	if len(args) < 2 {
		return
	}
	switch args[1] {
	case docker.KillCommand:
		os.Exit(docker.RunKill(args[2:])) //nolint:forbidigo // it is another program from here on
	case kubernetes.InstallCommand:
		os.Exit(kubernetes.RunInstall(args[2:], os.Stderr)) //nolint:forbidigo // as above
	}
}

func (a *app) hostCommands() []*cobra.Command {
	return []*cobra.Command{a.serverCommand(), a.agentCommand()}
}

func (a *app) hostAdminCommands() []*cobra.Command { return []*cobra.Command{a.afterRestoreCommand()} }

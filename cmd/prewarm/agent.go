//go:build linux

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"cdr.dev/slog"
	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/agent"
	"github.com/prewarm-dev/prewarm/coderd/humanlog"
)

func (a *app) agentCommand() *cobra.Command {
	cmd := newCommand("agent [-- COMMAND...]", "Run inside a workspace, and report for it",
		`Runs inside a workspace whose template has an agent. It reports to the server that the workspace
starts, is ready, or is unhealthy. It runs the template's scripts on_start and on_claim. At a claim it learns who the
owner is, and with which parameters. Providers start it; by hand it is needed only for images of one's own.

The command after -- runs under it: the agent ends with that command, and with its exit status.

It takes no flags, since everybody on a machine can see the arguments of its processes:

  PREWARM_AGENT_URL         address of the server
  PREWARM_AGENT_TOKEN_FILE  file that holds the workspace's instance token
  PREWARM_AGENT_CA_FILE     PEM file of authorities to trust as well as those of the system; may be left out
  PREWARM_AGENT_DIR         where to write what a claim brings; ~/.prewarm where left out

What it runs does not get these variables.`,
		`  prewarm agent
  prewarm agent -- code-server --port 8080`,
		func(cmd *cobra.Command, args []string) error {
			opts, err := a.agentOptions(args)
			if err != nil {
				return err
			}
			status, err := agent.Run(cmd.Context(), opts)
			if err == nil && status != 0 {
				return &exitError{status: status}
			}
			return err
		})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
			return usageErrorf("unexpected argument %q: write the command to run after --", args[0])
		}
		return nil
	}
	return cmd
}

// agentOptions reads the environment. What it says of the agent does not go on to what the agent runs.
func (a *app) agentOptions(command []string) (agent.Options, error) {
	const prefix = "PREWARM_AGENT_"
	opts := agent.Options{
		URL: a.env(prefix + "URL"), TokenFile: a.env(prefix + "TOKEN_FILE"), CAFile: a.env(prefix + "CA_FILE"),
		Dir: a.env(prefix + "DIR"), Command: command, Stdout: a.stdout, Stderr: a.stderr, Version: version(), Clock: a.clock,
		Log: slog.Make(humanlog.Sink(a.stderr)).Named("agent"),
		Env: slices.DeleteFunc(slices.Clone(a.environ), func(kv string) bool { return strings.HasPrefix(kv, prefix) }),
	}
	if opts.URL == "" || opts.TokenFile == "" {
		return opts, usageErrorf("PREWARM_AGENT_URL and PREWARM_AGENT_TOKEN_FILE must be set")
	}
	if opts.Dir == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return opts, xerrors.Errorf("find directory of agent: %w (PREWARM_AGENT_DIR names another)", err)
		}
		opts.Dir = filepath.Join(home, ".prewarm")
	}
	return opts, nil
}

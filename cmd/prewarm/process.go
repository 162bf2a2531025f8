package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) processCommand() *cobra.Command {
	return a.group("process", "Run commands in the background of a workspace",
		`A process runs in a workspace that you claimed, whether somebody follows it or not, and ends with the claim. It needs an agent
inside. "prewarm exec" is for commands that you wait for.`,
		`  prewarm process start prebuild-aebagbafaydqqcikbmga2 -- make test
  prewarm process list prebuild-aebagbafaydqqcikbmga2
  prewarm process output prebuild-aebagbafaydqqcikbmga2 0f4c6f0e-5a3b-4c1d-9e2f-7a6b5c4d3e2f`,
		a.processListCommand(), a.processStartCommand(), a.processOutputCommand(), a.processSignalCommand())
}

func (a *app) processListCommand() *cobra.Command {
	cmd := newCommand("list WORKSPACE", "List processes",
		"Lists the processes that were started in a workspace, the oldest first, also those that have ended.",
		"  prewarm process list prebuild-aebagbafaydqqcikbmga2",
		list(a, view[sdk.Process]{
			ask: func(c *sdk.Client, ctx context.Context, ref string) ([]sdk.Process, error) {
				return c.Processes(ctx, ref)
			},
			text: func(all []sdk.Process) string {
				t := a.newTable("ID", "STATUS", "STARTED", "OUTPUT", "COMMAND")
				for _, p := range all {
					t.add(p.ID, processStatus(p), a.ago(p.StartedAt), fmt.Sprintf("%d B", p.Output), strings.Join(p.Command, " "))
				}
				return t.String()
			},
			none: "No process was started in the workspace.",
		}))
	cmd.ValidArgsFunction = a.completeStates("claimed")
	return cmd
}

func processStatus(p sdk.Process) string {
	switch {
	case p.ExitCode == nil:
		return "runs"
	case p.TimedOut:
		return "timed out"
	}
	return fmt.Sprintf("ended with %d", *p.ExitCode)
}

func (a *app) processStartCommand() *cobra.Command {
	var start sdk.ProcessStart
	cmd := newCommand("start WORKSPACE -- COMMAND...", "Start a process, and leave it running",
		`Starts a command in a workspace that you claimed, and says its id. It goes on when this command has ended. The last 1 MiB of
its output is kept, for "prewarm process output".`,
		`  prewarm process start prebuild-aebagbafaydqqcikbmga2 -- make test
  prewarm process start prebuild-aebagbafaydqqcikbmga2 --dir src --timeout 10m --env CI=true -- go test ./...`,
		a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
			start.Command = args[1:]
			if _, err := start.Check(); err != nil {
				return usageErrorf("%s", err)
			}
			p, err := c.StartProcess(ctx, args[0], start)
			if err != nil {
				return err
			}
			a.hint("Started. Follow it with: prewarm process output %s %s", args[0], p.ID)
			return a.print(p, p.ID.String()+"\n")
		}))
	cmd.ValidArgsFunction = a.completeStates("claimed")
	cmd.Args = commandAfterDash
	f := cmd.Flags()
	f.StringVar(&start.Dir, "dir", "", "where it runs; relative to the directory of the workspace")
	f.StringVar(&start.User, "user", "", "as whom it runs, where the agent is root")
	f.StringVar(&start.Timeout, "timeout", "", "after which it is ended, such as 10m; unlimited where empty")
	f.StringToStringVar(&start.Env, "env", nil, "over the environment of the workspace, as NAME=VALUE; as often as you like")
	return cmd
}

func (a *app) processOutputCommand() *cobra.Command {
	var from int64
	cmd := newCommand("output WORKSPACE PROCESS", "Follow the output of a process to its end",
		`Writes what a process has written, from --from on, and follows it. What is cut off goes on where it was. The status is that of
the process.`,
		`  prewarm process output prebuild-aebagbafaydqqcikbmga2 0f4c6f0e-5a3b-4c1d-9e2f-7a6b5c4d3e2f
  prewarm process output prebuild-aebagbafaydqqcikbmga2 0f4c6f0e-5a3b-4c1d-9e2f-7a6b5c4d3e2f --from 4096`,
		a.onProcess(func(ctx context.Context, c *sdk.Client, ref string, id uuid.UUID, _ []string) error {
			return endWith(c.FollowProcess(ctx, ref, id, from, func(o sdk.ProcessOutput) error {
				if o.Cut > 0 {
					a.hint("%d bytes from %d on are not kept any more.", o.Cut, o.Offset)
				}
				out := a.stdout
				if o.Stream == "stderr" {
					out = a.stderr
				}
				_, err := out.Write(o.Bytes())
				return err
			}))
		}))
	cmd.ValidArgsFunction = a.completeStates("claimed")
	cmd.PreRunE = a.unanswered("the output is the process's")
	cmd.Flags().Int64Var(&from, "from", 0, "offset of the first byte, counted over both streams")
	return cmd
}

func (a *app) processSignalCommand() *cobra.Command {
	cmd := newCommand("signal WORKSPACE PROCESS [SIGNAL]", "Send a signal to a process and its children",
		"Sends a signal to a process and its children: TERM, unless another is named, such as INT, HUP or KILL.",
		`  prewarm process signal prebuild-aebagbafaydqqcikbmga2 0f4c6f0e-5a3b-4c1d-9e2f-7a6b5c4d3e2f
  prewarm process signal prebuild-aebagbafaydqqcikbmga2 0f4c6f0e-5a3b-4c1d-9e2f-7a6b5c4d3e2f KILL`,
		a.onProcess(func(ctx context.Context, c *sdk.Client, ref string, id uuid.UUID, more []string) error {
			signal := "TERM"
			if len(more) > 0 {
				signal = strings.TrimPrefix(strings.ToUpper(more[0]), "SIG")
			}
			if err := c.SignalProcess(ctx, ref, id, signal); err != nil {
				return err
			}
			return a.print(sdk.ProcessSignal{Signal: signal}, "Sent "+signal+" to "+id.String()+".\n")
		}))
	cmd.ValidArgsFunction = a.completeStates("claimed")
	cmd.SuggestFor = []string{"kill", "stop", "interrupt", "terminate"}
	return cmd
}

// onProcess runs a command whose first arguments are WORKSPACE and PROCESS.
func (a *app) onProcess(run func(ctx context.Context, c *sdk.Client, ref string, id uuid.UUID, more []string) error) runE {
	return a.withClient(func(ctx context.Context, c *sdk.Client, args []string) error {
		id, err := uuid.Parse(args[1])
		if err != nil {
			return usageErrorf("PROCESS %q is no id; \"prewarm process list %s\" has them", args[1], args[0])
		}
		return run(ctx, c, args[0], id, args[2:])
	})
}

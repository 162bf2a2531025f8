package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) claimCommand() *cobra.Command {
	var req sdk.ClaimRequest
	var wait time.Duration
	var exec, keep, ownKey bool
	var parameters []string
	cmd := &cobra.Command{
		Use:   "claim TEMPLATE/PRESET [--exec -- COMMAND...]",
		Short: "Claim a warm workspace",
		Long: `Claims a workspace of a preset: it is yours until it is released. The outcome is hit if a warm one was
there, waited if one became ready within --wait, and miss if there was none; a miss exits with status 3 and says why.

With --mode require a claim never waits. With --key the same key gives the same workspace again, so that a script can
be repeated; without one, each run claims another workspace.

With --exec the command after -- runs inside the workspace, on a terminal if this is one. Afterwards the workspace is
released, unless --keep says otherwise, and the status is that of the command.

With --parameter the agent of the workspace is given more, without a rebuild: NAME=VALUE, or NAME=@FILE for the content
of a file, as befits a secret. The workspace's on_claim gets it as PARAM_NAME.

With -o env the output is lines of "export NAME='value'" that a shell can eval: what is needed to enter the workspace,
with PREWARM_CLAIM_ID and PREWARM_WORKSPACE. Assign it before the eval, so that a miss is noticed.`,
		Example: `  prewarm claim quickstart/default
  prewarm claim quickstart/default --mode require -o json
  prewarm claim quickstart/default --wait 2m --key build-1234
  prewarm claim quickstart/default --exec -- make test
  env=$(prewarm claim quickstart/default -o env) && eval "$env"`,
		Annotations:       map[string]string{outputs: "table,json,env"},
		ValidArgsFunction: a.completePresets,
		Args: func(cmd *cobra.Command, args []string) error {
			return claimArgs(args, cmd.ArgsLenAtDash(), exec)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if req.Template, req.Preset, err = presetArg(args[0]); err != nil {
				return err
			}
			switch {
			case req.Mode != "prefer" && req.Mode != "require":
				return usageErrorf("unknown mode %q: it is prefer or require", req.Mode)
			case wait < 0:
				return usageErrorf("--wait must not be negative")
			case keep && !exec:
				return usageErrorf("--keep goes with --exec; without it a claimed workspace is always kept")
			case exec && a.output != "table":
				return usageErrorf("with --exec the output is the command's, so -o %s cannot be", a.output)
			}
			if req.Parameters, err = claimParameters(parameters); err != nil {
				return err
			}
			req.Wait = wait.String()
			if req.Key == "" {
				// A request whose answer was lost can then be sent again without taking a second workspace.
				req.Key, ownKey = uuid.NewString(), true
			}
			client, err := a.client()
			if err != nil {
				return err
			}
			claim, err := client.Claim(cmd.Context(), req)
			if err != nil {
				if ownKey && cmd.Context().Err() != nil {
					a.giveUp(cmd.Context(), client, req)
				}
				return err
			}
			switch {
			case claim.Outcome == "miss":
				return a.miss(claim)
			case exec:
				return a.execClaimed(cmd.Context(), client, claim, args[1:], keep)
			case a.output == "env":
				return a.writeEnv(claim)
			default:
				return a.printClaim(claim)
			}
		},
	}
	cmd.Flags().StringVar(&req.Mode, "mode", "prefer", "prefer: warm, else wait for one; require: warm or a miss")
	cmd.Flags().DurationVar(&wait, "wait", 30*time.Second, "how long mode prefer waits")
	cmd.Flags().StringVar(&req.Key, "key", "", "idempotency key: the same key gives the same workspace")
	cmd.Flags().StringArrayVar(&parameters, "parameter", nil,
		"NAME=VALUE or NAME=@FILE for the workspace's agent; can be given more than once")
	cmd.Flags().BoolVar(&exec, "exec", false, "run the command after -- in the workspace, then release it")
	cmd.Flags().BoolVar(&keep, "keep", false, "with --exec, do not release the workspace afterwards")
	must(cmd.RegisterFlagCompletionFunc("mode", cobra.FixedCompletions(
		[]string{"prefer", "require"}, cobra.ShellCompDirectiveNoFileComp)))
	return cmd
}

// claimParameters reads NAME=VALUE and NAME=@FILE. Messages name no value: it may be a secret.
func claimParameters(given []string) (map[string]string, error) {
	if len(given) == 0 {
		return nil, nil //nolint:nilnil // None.
	}
	parameters := map[string]string{}
	for i, p := range given {
		name, value, ok := strings.Cut(p, "=")
		if _, twice := parameters[name]; !ok || name == "" || twice {
			return nil, usageErrorf("--parameter number %d: write NAME=VALUE or NAME=@FILE, each NAME once", i+1)
		}
		if path, isFile := strings.CutPrefix(value, "@"); isFile {
			content, err := os.ReadFile(path)
			if err != nil {
				return nil, xerrors.Errorf("read parameter %s: %w", name, err)
			}
			value = strings.TrimSuffix(string(content), "\n")
		}
		parameters[name] = value
	}
	return parameters, nil
}

// claimArgs wants one preset, and with --exec a command after the dash.
func claimArgs(args []string, dash int, exec bool) error {
	if dash < 0 {
		dash = len(args)
	}
	switch {
	case dash == 0:
		return usageErrorf("TEMPLATE/PRESET is missing")
	case dash > 1:
		return usageErrorf("unexpected argument %q", args[1])
	case exec && len(args) == 1:
		return usageErrorf("--exec needs a command: write it after --")
	case !exec && len(args) > 1:
		return usageErrorf("to run a command in the workspace, add --exec before --")
	}
	return nil
}

// miss reports a claim that found nothing. For a program that is an answer like any other.
func (a *app) miss(claim sdk.Claim) error {
	if a.output == "json" {
		if err := a.print(claim, nil); err != nil {
			return err
		}
	}
	message := fmt.Sprintf("no warm workspace of %s/%s", claim.Template, claim.Preset)
	if claim.Reason != "" {
		message += ": " + oneLine(claim.Reason)
	}
	return &exitError{status: statusMiss, message: message + " (see \"prewarm preset show " +
		claim.Template + "/" + claim.Preset + "\", or wait longer with --wait)"}
}

func (a *app) printClaim(claim sdk.Claim) error {
	t := a.newTable()
	t.add("Workspace", cell{claim.Name, bold})
	outcome := claim.Outcome
	if claim.WaitedMS > 0 {
		outcome = fmt.Sprintf("%s (%d ms)", claim.Outcome, claim.WaitedMS)
	}
	t.add("Outcome", outcome)
	t.add("Claim", claim.ClaimID)
	t.addIf("Provider id", claim.ProviderID)
	for _, address := range claim.Addresses {
		t.add("Address", address.Type+" "+address.Address)
	}
	for _, name := range sortedKeys(claim.Environment) {
		t.add("Environment", name+"="+claim.Environment[name])
	}
	err := a.print(claim, func(w io.Writer) error { return t.write(w) })
	if err == nil && a.output == "table" {
		a.hint("Enter it with:  prewarm workspace exec %s -- sh\nGive it back:   prewarm workspace release %s",
			claim.Name, claim.Name)
	}
	return err
}

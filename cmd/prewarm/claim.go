package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) claimCommand() *cobra.Command {
	var req sdk.ClaimRequest
	var wait, startWait, ready, lease time.Duration
	var exec, keep, ownKey bool
	var parameters, secrets, choice, program []string
	cmd := newCommand("claim TEMPLATE[/PRESET] [--exec -- COMMAND...]", "Claim a warm workspace",
		`Claims a workspace of a preset: it is yours until it is released. The outcome is hit if a warm one was
there, waited if one became ready within --wait, and miss if there was none. A miss exits with status 3 and says why.

With --mode require a claim never waits. With --mode bypass it is given a workspace that is built for it, as with
--cold where none is warm. The outcome is cold then, and --wait 10m unless given. With --key the same key gives the
same workspace again, so that a script can be repeated. Without one, each run claims another workspace.

A workspace out of standby is started first. The claim is yours at once, and the command waits for the start for as
long as --start-wait says. If it cannot be started, the status is 1 and it stays yours until it is released.

With --exec the command after -- runs inside the workspace, on a terminal if this is one. Afterwards the workspace is
released, unless --keep says otherwise, and the status is that of the command.

Without a preset, --preset-parameter chooses the one whose parameters are all among those given, and of several the
one with most. What it does not have goes to the agent. A miss says which parameter of the nearest preset differs.

With --count so many are claimed, all or none. With --lease the workspace is released by itself then, unless the lease
is renewed ("prewarm workspace renew"). With --wait-ready on_claim has succeeded when the command returns. A workspace
in which it fails is given up, and another claimed.

With --parameter the agent of the workspace is given more, without a rebuild. It is NAME=VALUE, or NAME=@FILE for the
content of a file, as befits a secret. The workspace's on_claim gets it as PARAM_NAME.

With --secret the agent is given a secret, as a file in the folder $PREWARM_SECRETS of the workspace. It is never an
argument, which others could see. NAME=- reads it from standard input, NAME=@FILE from a file, NAME=env:VARIABLE from
the environment. The server forgets it as soon as the agent has it.

With -o env the output is lines of "export NAME='value'" that a shell can eval. They have what is needed to enter the
workspace, with PREWARM_CLAIM_ID and PREWARM_WORKSPACE. PREWARM_ADDRESS is the first address. Each address also has a
variable by its type, as in PREWARM_ADDRESS_TCP and PREWARM_ADDRESS_TCP_2. Assign it before the eval, so that a miss
is noticed.`,
		`  prewarm claim quickstart/default
  prewarm claim quickstart/default --mode require -o json
  prewarm claim quickstart/default --wait 2m --key build-1234
  prewarm claim quickstart/default --exec -- make test
  prewarm claim go --preset-parameter cpu=4 --lease 2h --wait-ready 10m
  prewarm claim ci/runner --count 5 --wait 5m -o json
  prewarm claim quickstart/default --mode bypass --secret token=env:CI_TOKEN
  env=$(prewarm claim quickstart/default -o env) && eval "$env"`,
		a.asks(func(ctx context.Context, client *sdk.Client, _ string) error {
			claim, err := client.Claim(ctx, req)
			if err != nil {
				if ownKey && ctx.Err() != nil {
					a.giveUp(ctx, client, req)
				}
				return err
			}
			switch {
			case claim.Outcome == "miss":
				return a.miss(claim)
			case exec:
				if err := a.startedOrReleased(ctx, client, &claim, startWait, keep); err != nil {
					return err
				}
				return a.execClaimed(ctx, client, claim, program, keep)
			}
			startErr := a.awaitStart(ctx, client, &claim, startWait)
			if a.output == "env" {
				err = a.writeEnv(claim)
			} else {
				err = a.printClaim(claim)
			}
			return errors.Join(startErr, err)
		}))
	// Jobs claim runners, and people cannot.
	cmd.ValidArgsFunction = a.completePresets(func(p sdk.Preset) bool { return p.Runner == nil })
	cmd.Annotations = map[string]string{outputs: "table,json,yaml,env"}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		return claimArgs(args, cmd.ArgsLenAtDash(), exec)
	}
	cmd.PreRunE = func(cmd *cobra.Command, args []string) (err error) {
		if req.Template, req.Preset, err = claimedArg(args[0]); err != nil {
			return err
		}
		switch {
		case req.Mode != "prefer" && req.Mode != "require" && req.Mode != "bypass":
			return usageErrorf("unknown mode %q: it is prefer, require or bypass", req.Mode)
		case req.Cold && req.Mode != "prefer":
			return usageErrorf("--cold goes with --mode prefer, not with %s", req.Mode)
		case req.Preset != "" && len(choice) > 0:
			return usageErrorf("--preset-parameter chooses a preset, and %s names one: leave one of them out", args[0])
		case req.Count < 1 || req.Count > 100:
			return usageErrorf("--count must be from 1 to 100")
		case req.Count > 1 && (exec || a.output == "env"):
			return usageErrorf("--count %d goes with neither --exec nor -o env, which are about one workspace", req.Count)
		case req.Count > 1 && ready > 0:
			return usageErrorf("--wait-ready goes with one workspace, not with --count %d", req.Count)
		case cmd.Flags().Changed("lease") && lease < time.Second:
			return usageErrorf("--lease must be at least 1s")
		case cmd.Flags().Changed("wait-ready") && ready < time.Second:
			return usageErrorf("--wait-ready must be at least 1s")
		case wait < 0:
			return usageErrorf("--wait must not be negative")
		case startWait < 0:
			return usageErrorf("--start-wait must not be negative")
		case keep && !exec:
			return usageErrorf("--keep goes with --exec; without it a claimed workspace is always kept")
		case exec && a.output != "table":
			return usageErrorf("with --exec the output is the command's, so -o %s cannot be", a.output)
		}
		if req.Parameters, err = claimParameters(parameters); err != nil {
			return err
		}
		if req.PresetParameters, err = presetParameters(choice); err != nil {
			return err
		}
		if req.Secrets, err = a.claimSecrets(secrets); err != nil {
			return err
		}
		if req.Wait = wait.String(); !cmd.Flags().Changed("wait") && (req.Cold || req.Mode == "bypass") {
			req.Wait = "" // the server knows how long a build may take
		}
		req.Lease, req.WaitReady = given(lease), given(ready)
		if req.Count == 1 {
			req.Count = 0
		}
		if req.Key == "" {
			// A request whose answer was lost can then be sent again without taking a second workspace.
			req.Key, ownKey = uuid.NewString(), true
		}
		program = args[1:]
		return nil
	}
	cmd.Flags().StringVar(&req.Mode, "mode", "prefer", "prefer: warm, else wait for one; require: warm or a miss; bypass: built for this claim")
	cmd.Flags().BoolVar(&req.Cold, "cold", false, "with mode prefer: where none is warm, have one built for this claim")
	cmd.Flags().IntVar(&req.Count, "count", 1, "how many workspaces, all or none")
	cmd.Flags().DurationVar(&lease, "lease", 0, "release it by itself after this time, unless renewed")
	cmd.Flags().DurationVar(&ready, "wait-ready", 0, "wait so long (5m where no time is given) until on_claim has succeeded")
	cmd.Flags().Lookup("wait-ready").NoOptDefVal = "5m"
	cmd.Flags().StringArrayVar(&choice, "preset-parameter", nil,
		"NAME=VALUE that the preset must have, instead of its name; can be given more than once")
	cmd.Flags().StringArrayVar(&secrets, "secret", nil,
		"NAME=-, NAME=@FILE or NAME=env:VARIABLE for the workspace's agent; can be given more than once")
	cmd.Flags().DurationVar(&wait, "wait", 30*time.Second, "how long to wait; 10m where one is built for this claim")
	cmd.Flags().DurationVar(&startWait, "start-wait", 5*time.Minute,
		"how long to wait for one out of standby to start; 0s: not at all")
	cmd.Flags().StringVar(&req.Key, "key", "", "idempotency key: the same key gives the same workspace")
	cmd.Flags().StringArrayVar(&parameters, "parameter", nil,
		"NAME=VALUE or NAME=@FILE for the workspace's agent; can be given more than once")
	cmd.Flags().BoolVar(&exec, "exec", false, "run the command after -- in the workspace, then release it")
	cmd.Flags().BoolVar(&keep, "keep", false, "with --exec, do not release the workspace afterwards")
	oneOf(cmd, "mode", "prefer", "require", "bypass")
	return cmd
}

// joinWaitReady joins --wait-ready with a time that follows it: the flag may be given without one, so that to the parser a
// time behind a space is an argument. The result is a copy.
func joinWaitReady(args []string) []string {
	joined := make([]string, 0, len(args))
	for i, arg := range args {
		if arg == "--" {
			return append(joined, args[i:]...)
		}
		if len(joined) > 0 && joined[len(joined)-1] == "--wait-ready" {
			if _, err := time.ParseDuration(arg); err == nil {
				joined[len(joined)-1] += "=" + arg
				continue
			}
		}
		joined = append(joined, arg)
	}
	return joined
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
	if err := a.print(claim, ""); err != nil {
		return err
	}
	if claim.Preset == "" {
		return &exitError{status: statusMiss, message: oneLine(claim.Reason)}
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
	switch {
	case claim.Starting:
		outcome += ", out of standby, still starting"
	case claim.Standby && claim.Fault == "":
		outcome += ", started out of standby"
	}
	t.add("Outcome", outcome)
	t.addIf("Fault", cell{printable.Headline(claim.Fault), red})
	t.add("Claim", claim.ClaimID)
	t.addIf("Lease ends", a.agoOr(claim.LeaseUntil, ""))
	if claim.Replaced > 0 {
		t.add("Given up before", fmt.Sprintf("%d, in which on_claim failed", claim.Replaced))
	}
	t.addIf("Receipt", receiptText(claim.Receipt))
	if len(claim.Workspaces) > 0 {
		return a.printClaimed(claim)
	}
	t.addIf("Provider id", claim.ProviderID)
	t.addAccess(claim.Addresses, claim.Environment)
	t.addOpen(claim.Open)
	err := a.print(claim, t.String())
	if err == nil && a.output == "table" {
		a.hint("Enter it with:  prewarm workspace exec %s -- sh\nGive it back:   prewarm workspace release %s",
			claim.Name, claim.Name)
	}
	return err
}

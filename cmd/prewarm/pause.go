package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// scopes are what can be paused, from the largest.
var scopes = []string{"global", "provider", "template", "preset"}

const scopesHelp = "global, provider NAME, template NAME or preset TEMPLATE/PRESET"

func (a *app) pauseCommand() *cobra.Command {
	var req sdk.PauseRequest
	var duration time.Duration
	cmd := newCommand("pause SCOPE [TARGET]", "Stop making and removing prebuilds",
		`Stops the making and removing of prebuilds in a scope, until "prewarm resume" or until the time of --for
is over. What is warm can still be claimed. The scope is
`+scopesHelp+`.

"prewarm pause list" shows what is paused.`,
		`  prewarm pause global --reason "moving the database" --for 2h
  prewarm pause provider docker --reason "host maintenance"
  prewarm pause preset quickstart/default --reason "looking into a failure"`,
		show(a, func(c *sdk.Client, ctx context.Context, _ string) (sdk.Pause, error) {
			return c.Pause(ctx, req)
		}, func(p sdk.Pause) string {
			scope := strings.TrimSpace(req.Scope + " " + req.Target)
			return fmt.Sprintf("Paused %s. It ends: %s.\n", scope, a.agoOr(p.ExpiresAt, "with \"prewarm resume "+scope+"\""))
		}))
	cmd.Args = scopeArgs
	cmd.ValidArgsFunction = a.completePauses(false)
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		req.ExpiresIn = given(duration)
		req.Scope, req.Target = scopeOf(args)
		return cmp.Or(checkReason(req.Reason),
			usageErrorIf(duration < 0 || cmd.Flags().Changed("for") && duration == 0, "--for must be more than 0"))
	}
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why; shown to everybody who wonders")
	cmd.Flags().DurationVar(&duration, "for", 0, "how long, such as 2h; until resumed where not given")
	cmd.AddCommand(a.filledIn(a.pauseListCommand())...)
	return cmd
}

func (a *app) pauseListCommand() *cobra.Command {
	return newCommand("list", "List what is paused",
		"Lists what is paused, why, by whom and until when.",
		"  prewarm pause list",
		list(a, view[sdk.Pause]{ask: noArg((*sdk.Client).Pauses), text: a.pausesText, none: "Nothing is paused."}))
}

func (a *app) pausesText(pauses []sdk.Pause) string {
	t := a.newTable("SCOPE", "TARGET", "REASON", "BY", "SINCE", "ENDS")
	for _, p := range pauses {
		t.add(p.Scope, p.Target, p.Reason, p.CreatedBy, a.ago(p.CreatedAt), a.agoOr(p.ExpiresAt, "when resumed"))
	}
	return t.String()
}

// checkReason checks the flag --reason of what stops something.
func checkReason(reason string) error {
	return usageErrorIf(strings.TrimSpace(reason) == "", "--reason is missing: others will want to know")
}

// scopeArgs checks what is to be paused or resumed.
func scopeArgs(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return usageErrorf("the scope is missing: %s", scopesHelp)
	}
	wanted := 2
	switch args[0] {
	case "global":
		wanted = 1
	case "provider", "template", "preset":
	default:
		return usageErrorf("unknown scope %q: it is %s", args[0], scopesHelp)
	}
	switch {
	case len(args) < wanted:
		return usageErrorf("which %s is missing", args[0])
	case len(args) > wanted:
		return usageErrorf("unexpected argument %q", args[wanted])
	case args[0] == "preset":
		_, _, err := presetArg(args[1])
		return err
	}
	return nil
}

func scopeOf(args []string) (scope, target string) {
	if len(args) == 2 {
		target = args[1]
	}
	return args[0], target
}

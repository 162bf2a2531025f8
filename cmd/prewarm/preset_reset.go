package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) presetResetCommand() *cobra.Command {
	cmd := a.presetAction("reset", "Let creates of a preset begin again after failures",
		`Forgets the failures of a preset's creates. They begin again at once, also where the hard limit had stopped
them or a rollout had come to its progress deadline. Repair the cause first: "prewarm preset failures" shows it.`,
		"Reset", (*sdk.Client).ResetPreset)
	cmd.ValidArgsFunction = a.completePresets(func(p sdk.Preset) bool { return p.Failures > 0 })
	return cmd
}

func (a *app) presetInvalidateCommand() *cobra.Command {
	return a.presetAction("invalidate", "Replace all prebuilds of a preset",
		`Makes all unclaimed prebuilds of a preset outdated, as a new version would. They are replaced by the rules of
the template's rollout, and stay claimable meanwhile if the template keeps outdated ones. What is claimed stays.`,
		"Invalidated", (*sdk.Client).InvalidatePreset)
}

// presetAction is a command that does one thing to a preset, for a reason.
func (a *app) presetAction(
	verb, short, long, done string, do func(c *sdk.Client, ctx context.Context, template, preset, reason string) error,
) *cobra.Command {
	var reason string
	cmd := newCommand(verb+" TEMPLATE/PRESET", short,
		long,
		"  prewarm preset "+verb+" quickstart/default",
		act(a, onPreset(func(c *sdk.Client, ctx context.Context, template, preset string) error {
			return do(c, ctx, template, preset, reason)
		}), strings.ToLower(done), done+" %s.\n"))
	cmd.ValidArgsFunction = a.completePresets(func(p sdk.Preset) bool { return p.Pool })
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the audit log")
	return cmd
}

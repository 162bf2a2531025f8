package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) presetReplayCommand() *cobra.Command {
	var days, instances int
	var cold bool
	cmd := newCommand("replay TEMPLATE/PRESET", "Show what another size would have done to a preset",
		`Plays the claims of the last days again, as they came, against a pool of another size, and against one
that autosize sizes. It shows how many would have hit, and how long prebuilds would have been idle. Nothing is
changed.

The pool is taken to refill at once and to build a prebuild in the time that it took on average of late. The autosize
starts with no history at the beginning of these days, under the preset's settings or the usual ones.`,
		"  prewarm preset replay quickstart/default --days 14\n"+
			"  prewarm preset replay quickstart/default --instances 8",
		show(a, ofPreset(func(c *sdk.Client, ctx context.Context, template, preset string) (sdk.PresetReplay, error) {
			return c.PresetReplay(ctx, template, preset, days, instances, cold)
		}), func(r sdk.PresetReplay) string {
			return a.pastTable(r.PresetPast).String() + a.outcomesText(r.PresetPast, r.Outcomes)
		}))
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		return cmp.Or(checkDays(days),
			usageErrorIf(cmd.Flags().Changed("instances") && (instances < 0 || instances > 10000),
				"--instances is %d: it must be between 0 and 10000", instances))
	}
	cmd.Flags().IntVar(&days, "days", 14, "how far to look back, at most 30")
	cmd.Flags().IntVar(&instances, "instances", -1, "how many instances to try; the preset's own where it is left out")
	cmd.Flags().BoolVar(&cold, "cold", false, "let a claim that misses go elsewhere, instead of waiting")
	return cmd
}

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) presetFailuresCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "failures TEMPLATE/PRESET",
		Short: "Show why creates of a preset failed, grouped by cause",
		Long: `Shows the causes of failed creates over the last 30 days, the latest first: how often, when first and last, and
with -o json the last fault of each in full. Faults that differ only in names, ids and numbers are one cause.

After a failure creates wait, 5 s at first and up to 5 min. After 3 in a row that a retry cannot mend, or 15 minutes
of others, they stop until the version changes or "prewarm preset reset".`,
		Example: "  prewarm preset failures quickstart/default",
		RunE: a.asks(func(ctx context.Context, c *sdk.Client, name string) error {
			f, err := ofPreset((*sdk.Client).PresetFailures)(c, ctx, name)
			if err != nil {
				return err
			}
			if f.Streak > 0 {
				a.hint("The last %d in a row failed, %d of them for good. To try anew: prewarm preset reset %s", f.Streak,
					f.Permanent, name)
			}
			return a.print(f, a.failuresText(f))
		}),
	}
}

func (a *app) failuresText(f sdk.Failures) string {
	if len(f.Causes) == 0 {
		return "No create failed in the last 30 days.\n"
	}
	t := a.newTable("COUNT", "FIRST", "LAST", "VERSION", "RETRY", "CAUSE")
	for _, c := range f.Causes {
		retry := cell{"may help", plain}
		if c.Permanent {
			retry = cell{"no use", yellow}
		}
		t.add(c.Count, a.ago(c.FirstAt), a.ago(c.LastAt), c.Version, retry, c.Cause)
	}
	return t.String()
}

package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/printable"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) presetFailuresCommand() *cobra.Command {
	var full bool
	cmd := newCommand("failures TEMPLATE/PRESET", "Show why creates of a preset failed, grouped by cause",
		`Shows the causes of failed creates over the last 30 days, the latest first. Each has how often, when
first and last, and its last message. With --full the end of its output is shown too. Faults that differ only in
names, ids and numbers are one cause.

After a failure creates wait, 5 s at first and up to 5 min. After 3 in a row that will not succeed on retry, or 15
minutes of others, they stop. They begin again when the version changes, or with "prewarm preset reset".`,
		"  prewarm preset failures quickstart/default",
		a.asks(func(ctx context.Context, c *sdk.Client, name string) error {
			f, err := ofPreset((*sdk.Client).PresetFailures)(c, ctx, name)
			if err != nil {
				return err
			}
			if f.Streak > 0 {
				a.hint("The last %d in a row failed, %d of them for good. To try again: prewarm preset reset %s", f.Streak,
					f.Permanent, name)
			}
			text := a.failuresText(f)
			if full {
				text += faultsText(f)
			}
			return a.print(f, text)
		}))
	cmd.Flags().BoolVar(&full, "full", false, "show the last fault of each cause in full, with the end of its output")
	return cmd
}

func (a *app) failuresText(f sdk.Failures) string {
	if len(f.Causes) == 0 {
		return "No create failed in the last 30 days.\n"
	}
	t := a.newTable("COUNT", "FIRST", "LAST", "VERSION", "RETRY", "LAST MESSAGE")
	for _, c := range f.Causes {
		retry := cell{"may help", plain}
		if c.Permanent {
			retry = cell{"no use", yellow}
		}
		t.add(c.Count, a.ago(c.FirstAt), a.ago(c.LastAt), c.Version, retry, message(c))
	}
	return t.String()
}

// message is the last one; a server of the release before has the fault only.
func message(c sdk.Cause) string { return cmp.Or(c.Message, printable.Headline(c.Fault), c.Cause) }

func faultsText(f sdk.Failures) string {
	var text strings.Builder
	for _, c := range f.Causes {
		fmt.Fprintf(&text, "\n%s, version %d:\n%s\n", oneLine(c.Workspace), c.Version, strings.TrimSpace(printable.Text(c.Fault)))
	}
	return text.String()
}

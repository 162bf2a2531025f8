package main

import (
	"cmp"
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

func (a *app) presetScheduleCommand() *cobra.Command {
	return a.group("schedule", "See at which times a pool has how many instances",
		`A schedule gives a pool other instances at certain times. It is part of the configuration: see "prewarm apply".`,
		"  prewarm preset schedule show quickstart/default",
		a.presetScheduleShowCommand())
}

func (a *app) presetScheduleShowCommand() *cobra.Command {
	cmd := newCommand("show TEMPLATE/PRESET", "Show the next 7 days of a pool's schedule",
		`Shows how many instances a pool is to have over the next 7 days, in the timezone of its schedule, and which
range says so. Where no range applies, the preset has its own instances.`,
		"  prewarm preset schedule show quickstart/default",
		a.asks(func(ctx context.Context, c *sdk.Client, name string) error {
			s, err := ofPreset((*sdk.Client).PresetSchedule)(c, ctx, name)
			if err != nil {
				return err
			}
			if len(s.Ranges) == 0 {
				a.hint("%s has no schedule: it always has its own instances.", name)
			}
			return a.print(s, a.scheduleText(s))
		}))
	cmd.ValidArgsFunction = a.completePresets(func(p sdk.Preset) bool { return p.Scheduled })
	return cmd
}

func (a *app) scheduleText(s sdk.Schedule) string {
	const minute = "Mon 2006-01-02 15:04 MST"
	t := a.newTable("FROM", "TO", "INSTANCES", "RANGE")
	for _, window := range s.Windows {
		t.add(inZone(window.From, s.Timezone).Format(minute), inZone(window.To, s.Timezone).Format(minute),
			window.Instances, cmp.Or(window.Cron, "(none)"))
	}
	return t.String()
}

// inZone is an instant in a timezone, with its name for it; as it is where this machine does not know the timezone.
func inZone(t time.Time, timezone string) time.Time {
	location, err := time.LoadLocation(timezone)
	if err != nil {
		return t
	}
	return t.In(location)
}

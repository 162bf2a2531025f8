package sdk

import (
	"context"
	"time"
)

// Schedule is what a pool's instances are over the days to come (C9).
type Schedule struct {
	Template  string           `json:"template"`
	Preset    string           `json:"preset"`
	Timezone  string           `json:"timezone" doc:"In which its ranges are; UTC where it has none"`
	Instances int              `json:"instances" doc:"The preset's own, where no range applies"`
	Ranges    []ScheduleRange  `json:"ranges"`
	Windows   []ScheduleWindow `json:"windows" doc:"From now on, without a gap"`
}

// ScheduleRange is a rule: at each minute that the cron expression matches, there are these instances.
type ScheduleRange struct {
	Cron      string `json:"cron" doc:"Minute, hour, day of month, month, day of week" example:"* 8-18 * * 1-5"`
	Instances int    `json:"instances"`
}

// ScheduleWindow is a time during which one range applies, or none: then Cron is empty.
type ScheduleWindow struct {
	From      time.Time `json:"from" doc:"In the schedule's timezone"`
	To        time.Time `json:"to" doc:"Exclusive"`
	Instances int       `json:"instances"`
	Cron      string    `json:"cron,omitempty"`
}

// PresetSchedule shows the next 7 days of a pool.
func (c *Client) PresetSchedule(ctx context.Context, template, preset string) (Schedule, error) {
	return get[Schedule](ctx, c, "presets", template, preset, "schedule")
}

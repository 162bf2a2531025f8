package api

import (
	"context"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// scheduleShown is how far ahead a schedule is shown.
const scheduleShown = 7 * 24 * time.Hour

func (s *server) getSchedule(ctx context.Context, who auth.Identity, in *presetInput) (sdk.Schedule, error) {
	row, err := s.presetView(ctx, who, in)
	if err != nil {
		return sdk.Schedule{}, err
	}
	shown := sdk.Schedule{
		Template: row.Template, Preset: row.Preset, Timezone: "UTC", Ranges: []sdk.ScheduleRange{},
		Windows: []sdk.ScheduleWindow{}, Instances: int(database.OrZero(row.Instances)),
	}
	var schedule *prebuilds.Schedule
	if row.Schedule != nil {
		if schedule, err = prebuilds.DecodeSchedule(row.Schedule); err != nil {
			return sdk.Schedule{}, err
		}
		shown.Timezone = schedule.Timezone
		for _, r := range schedule.Ranges() {
			shown.Ranges = append(shown.Ranges, sdk.ScheduleRange{Cron: r.Cron, Instances: r.Instances})
		}
	}
	for _, w := range schedule.Windows(shown.Instances, row.Now, row.Now.Add(scheduleShown)) {
		shown.Windows = append(shown.Windows, sdk.ScheduleWindow(w))
	}
	return shown, nil
}

// presetView is the row of one preset, or a refusal that names what there is.
func (s *server) presetView(ctx context.Context, who auth.Identity, in *presetInput) (viewsdb.PresetViewsRow, error) {
	id, _, err := s.findPreset(ctx, who, in.Template, in.Preset)
	if err != nil {
		return viewsdb.PresetViewsRow{}, err
	}
	rows, err := viewsdb.New(s.Store).PresetViews(ctx, viewsdb.PresetViewsParams{
		OrganizationID: who.OrganizationID, PresetID: uuid.NullUUID{UUID: id, Valid: true},
	})
	if err != nil {
		return viewsdb.PresetViewsRow{}, xerrors.Errorf("read preset: %w", err)
	}
	if len(rows) == 0 { // deleted at this moment
		return viewsdb.PresetViewsRow{}, s.unknownPreset(ctx, who, in.Template, in.Preset)
	}
	return rows[0], nil
}

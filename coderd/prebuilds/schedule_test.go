package prebuilds

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestC9_scheduleRefusals(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		timezone string
		ranges   []Range
		at       int
		message  string
	}{
		{"Mars/Olympus", nil, -1, `unknown timezone "Mars/Olympus": take a name of the IANA database`},
		{"", nil, -1, `unknown timezone ""`},
		{"Local", nil, -1, `unknown timezone "Local"`},
		{"UTC", []Range{{"* 25 * * *", 1}}, 0, `cron "* 25 * * *": end of range (25) above maximum (23): 25: write minute, hour`},
		{"UTC", []Range{{"* 8-18 * *", 1}}, 0, "expected exactly 5 fields"},
		{"UTC", []Range{{"", 1}}, 0, "empty spec string"},
		{"UTC", []Range{{"@daily", 1}}, 0, "is not a range of times"},
		{"UTC", []Range{{"TZ=UTC * * * * *", 1}}, 0, "the timezone is a setting of its own"},
		{"UTC", []Range{{"* * 30 2 *", 1}}, 0, `cron "* * 30 2 *" never comes: no month has such a day`},
		{"UTC", []Range{{"* * * * *", -1}}, 0, "instances is negative"},
		{
			"UTC",
			[]Range{{"* 8-18 * * 1-5", 5}, {"* 18-20 * * 5", 9}},
			1,
			`"* 8-18 * * 1-5" (5 instances) and "* 18-20 * * 5" (9 instances) overlap, for example on a Friday, 1 January at 18:00`,
		},
		// A day of month and a day of week, both restricted, are alternatives: any first of a month that is a Monday.
		{"UTC", []Range{{"* 8 * * 1", 5}, {"0-30 8 1 6 3", 9}}, 1, "overlap, for example on a Monday, 1 June at 08:00"},
		{"UTC", []Range{{"* 8 29 2 *", 5}, {"59 * * * 0", 9}}, 1, "overlap, for example on a Sunday, 29 February at 08:59"},
	} {
		_, err := NewSchedule(tc.timezone, tc.ranges)
		var wrong *ScheduleError
		require.ErrorAs(t, err, &wrong, "%v", tc)
		require.Equal(t, tc.at, wrong.Range, "%v", tc)
		require.ErrorContains(t, err, tc.message)
	}
	_, err := NewSchedule("Europe/Berlin", []Range{
		{"* 8-18 * * 1-5", 5}, {"* 19-23 * * 1-5", 1}, {"0-29 7 * * *", 2}, {"30-59 7 * * *", 3}, {"* 8-18 * * 0,6", 4},
	})
	require.NoError(t, err, "ranges side by side do not overlap")
}

// TestC9_scheduleAcrossDST: a range goes by the clock on the wall. In spring the hour that is left out belongs to
// nothing, in autumn the one that comes twice belongs to its range both times; nothing is shifted by a day before or
// after.
func TestC9_scheduleAcrossDST(t *testing.T) {
	t.Parallel()
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339, s)
		require.NoError(t, err)
		return v
	}
	for _, tc := range []struct {
		name, timezone, cron string
		from, to             string // UTC
		windows              []string
	}{
		{
			"office hours before and after the spring change", "Europe/Berlin", "* 8-17 * * *",
			"2026-03-28T00:00:00Z", "2026-03-30T00:00:00Z", // changes on the 29th at 1:00 UTC
			[]string{"2026-03-28T07:00:00Z 2026-03-28T17:00:00Z", "2026-03-29T06:00:00Z 2026-03-29T16:00:00Z"},
		},
		{
			"the hour that is left out", "Europe/Berlin", "* 2 * * *",
			"2026-03-28T00:00:00Z", "2026-03-31T00:00:00Z",
			[]string{"2026-03-28T01:00:00Z 2026-03-28T02:00:00Z", "2026-03-30T00:00:00Z 2026-03-30T01:00:00Z"},
		},
		{
			"a range around the hour that is left out", "Europe/Berlin", "* 1-3 * * *",
			"2026-03-28T12:00:00Z", "2026-03-29T12:00:00Z",
			[]string{"2026-03-29T00:00:00Z 2026-03-29T02:00:00Z"}, // 1:00 to 2:00, then 3:00 to 4:00
		},
		{
			"the hour that comes twice", "Europe/Berlin", "* 2 * * *",
			"2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z", // changes on the 25th at 1:00 UTC
			[]string{"2026-10-25T00:00:00Z 2026-10-25T02:00:00Z"},
		},
		{
			"half of the hour that comes twice", "Europe/Berlin", "30-59 2 * * *",
			"2026-10-24T12:00:00Z", "2026-10-25T12:00:00Z",
			[]string{"2026-10-25T00:30:00Z 2026-10-25T01:00:00Z", "2026-10-25T01:30:00Z 2026-10-25T02:00:00Z"},
		},
		{
			"office hours before and after the autumn change", "America/New_York", "* 8-17 * * 1-5",
			"2026-10-30T00:00:00Z", "2026-11-03T00:00:00Z", // changes on Sunday, 1 November at 6:00 UTC
			[]string{"2026-10-30T12:00:00Z 2026-10-30T22:00:00Z", "2026-11-02T13:00:00Z 2026-11-02T23:00:00Z"},
		},
		{
			"a change by half an hour", "Australia/Lord_Howe", "* 1 * * *",
			"2026-04-04T00:00:00Z", "2026-04-05T00:00:00Z", // 2:00 becomes 1:30 on the 5th, at 15:00 UTC on the 4th
			[]string{"2026-04-04T14:00:00Z 2026-04-04T15:30:00Z"},
		},
		{
			"a timezone off by three quarters", "Asia/Kathmandu", "* 8 * * *",
			"2026-06-01T00:00:00Z", "2026-06-02T00:00:00Z",
			[]string{"2026-06-01T02:15:00Z 2026-06-01T03:15:00Z"},
		},
		{
			"one day of the year", "UTC", "* * 31 12 *",
			"2026-12-30T00:00:00Z", "2027-01-02T00:00:00Z",
			[]string{"2026-12-31T00:00:00Z 2027-01-01T00:00:00Z"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s, err := NewSchedule(tc.timezone, []Range{{tc.cron, 7}})
			require.NoError(t, err)
			var got []string
			for _, w := range s.Windows(1, at(tc.from), at(tc.to)) {
				if w.Instances == 7 {
					require.Equal(t, tc.cron, w.Cron)
					got = append(got, fmt.Sprintf("%s %s", w.From.UTC().Format(time.RFC3339), w.To.UTC().Format(time.RFC3339)))
				}
			}
			require.Equal(t, tc.windows, got)
		})
	}
}

// TestC9_scheduleHoldsUntilLook: between two looks nothing changes, windows have no gaps, and say what At says.
func TestC9_scheduleHoldsUntilLook(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		zone := rapid.SampledFrom([]string{"UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"}).
			Draw(t, "timezone")
		var s *Schedule
		for range rapid.IntRange(1, 3).Draw(t, "ranges") {
			var ranges []Range
			if s != nil {
				for _, r := range s.ranges {
					ranges = append(ranges, r.Range)
				}
			}
			cron := fmt.Sprintf("%s %d-%d * * %s", rapid.SampledFrom([]string{"*", "0-29", "10,50"}).Draw(t, "minutes"),
				rapid.IntRange(0, 11).Draw(t, "from"), rapid.IntRange(12, 23).Draw(t, "to"),
				rapid.SampledFrom([]string{"*", "1-5", "0,6", "3"}).Draw(t, "days"))
			if next, err := NewSchedule(zone, append(ranges, Range{cron, rapid.IntRange(0, 9).Draw(t, "instances")})); err == nil {
				s = next
			}
		}
		// Around a DST change of all of these zones, or none.
		start := time.Date(2026, time.Month(rapid.IntRange(3, 4).Draw(t, "month")), rapid.IntRange(1, 31).Draw(t, "day"), 0,
			0, rapid.IntRange(0, 100_000).Draw(t, "second"), 0, time.UTC)
		look := s.look(start)
		require.True(t, look.After(start))
		rule, _ := s.At(start)
		probe := start.Add(time.Duration(rapid.Int64Range(0, int64(look.Sub(start))-1).Draw(t, "later")))
		same, _ := s.At(probe)
		require.Equal(t, rule, same, "%s to %s, at %s", start, look, probe)

		end, last := start.Add(7*24*time.Hour), start
		at := start.Add(time.Duration(rapid.Int64Range(0, int64(end.Sub(start))-1).Draw(t, "at")))
		for _, w := range s.Windows(99, start, end) {
			require.True(t, w.From.Equal(last), "a gap before %s", w.From)
			require.True(t, w.To.After(w.From))
			last = w.To
			if at.Before(w.To) && !at.Before(w.From) {
				rule, found := s.At(at)
				if !found {
					rule.Instances = 99
				}
				shown := Range{w.Cron, w.Instances}
				require.Equal(t, rule, shown, "at %s", at)
			}
		}
		require.True(t, last.Equal(end))
	})
}

// TestC9_scheduleOverridesInstances: by the one func that decides it, and by plans, and never for what is retired (C4).
func TestC9_scheduleOverridesInstances(t *testing.T) {
	t.Parallel()
	p := newPool(2).preset
	p.Schedule = mustSchedule("* 12-13 * * *", 6)
	why, look := Desired(p, noon)
	require.Equal(t, Line{
		Label: "desired", Count: 6, Rule: "C9", Reason: Reason{Scheduled, Args{Cron: "* 12-13 * * *", Timezone: "UTC"}},
	}, why)
	require.Equal(t, `schedule "* 12-13 * * *" in UTC`, why.Reason.String())
	require.Equal(t, noon.Add(time.Hour), look)
	why, look = Desired(p, noon.Add(119*time.Minute))
	require.Equal(t, 6, why.Count)
	require.Equal(t, noon.Add(2*time.Hour), look, "when the range ends")
	why, _ = Desired(p, noon.Add(2*time.Hour))
	require.Equal(t, Line{Label: "desired", Count: 2}, why)

	plan, err := MakePlan(p, nil, noon)
	require.NoError(t, err)
	require.Equal(t, 6, plan.Create)
	require.Equal(t, 6, plan.Counts.Desired)
	require.Equal(t, 6, Count(p, nil, noon).Desired)
	p.Retired = TemplateDeprecated
	plan, err = MakePlan(p, nil, noon)
	require.NoError(t, err)
	require.Zero(t, plan.Create)
	require.Zero(t, plan.Counts.Desired)
}

func TestDecodeSchedule(t *testing.T) {
	t.Parallel()
	s, err := DecodeSchedule(json.RawMessage(`{"timezone": "Europe/Berlin", "ranges": [{"cron": "* 8 * * *", "instances": 3}]}`))
	require.NoError(t, err)
	r, ok := s.At(time.Date(2026, 7, 1, 6, 30, 0, 0, time.UTC))
	require.True(t, ok)
	require.Equal(t, Range{"* 8 * * *", 3}, r)
	_, err = DecodeSchedule(json.RawMessage(`{"timezone": "Nowhere/City"}`))
	require.ErrorContains(t, err, `unknown timezone "Nowhere/City"`)
}

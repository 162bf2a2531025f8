package templates_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/templates"
)

// TestBadSettings: each setting of pools and rollouts that is impossible is refused at apply, with its place, its name
// and what is allowed; and nothing is changed by the rest of the file.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := func(template, prebuilds string) string {
		return fmt.Sprintf(`
providers: [{name: here, kind: fake}]
templates:
  - name: a
    provider: here
    spec: {command: [x]}
%s
    presets:
      - name: p
        prebuilds:
          instances: 3
%s
`, template, prebuilds)
	}
	b.apply(t, file("", ""))
	before := b.dump(t)
	for name, tc := range map[string]struct{ template, prebuilds, want string }{
		"impossible cron": {
			"", `          schedule: {ranges: [{cron: "* 8-25 * * *", instances: 1}]}`,
			`f.yaml:12:31: schedule: cron "* 8-25 * * *": end of range (25) above maximum (23): 8-25: write minute, hour, day of ` +
				`month, month and day of week (0 is Sunday), like "* 8-18 * * 1-5"`,
		},
		"cron of another kind": {
			"", `          schedule: {ranges: [{cron: "@hourly", instances: 1}]}`, `is not a range of times`,
		},
		"a day that never comes": {
			"", `          schedule: {ranges: [{cron: "* * 31 2 *", instances: 1}]}`, `"* * 31 2 *" never comes`,
		},
		"unknown timezone": {
			"", `          schedule: {timezone: Europe/Berln, ranges: [{cron: "* 8 * * *", instances: 1}]}`,
			`f.yaml:12:32: schedule: unknown timezone "Europe/Berln": take a name of the IANA database, such as UTC or Europe/Berlin`,
		},
		"ranges that overlap": {
			"", `          schedule: {ranges: [{cron: "* 8-18 * * 1-5", instances: 5}, {cron: "* 12 * * *", instances: 9}]}`,
			`"* 8-18 * * 1-5" (5 instances) and "* 12 * * *" (9 instances) overlap, for example on a Monday, 1 January at 12:00`,
		},
		"a schedule without ranges": {"", `          schedule: {timezone: UTC}`, `schedule has no ranges: add "ranges:"`},
		"no ranges at all":          {"", `          schedule: {ranges: []}`, `ranges has 0 entries: it must have 1 to 50`},
		"a range of too many": {
			"", `          schedule: {ranges: [{cron: "* * * * *", instances: 10001}]}`,
			`instances is 10001: it must be between 0 and 10000`,
		},
		"ttl_jitter above its limit":  {"", `          ttl_jitter: 51%`, `ttl_jitter "51%": it must be whole per cent, "0%" to "50%"`},
		"ttl_jitter without per cent": {"", `          ttl_jitter: 10`, `ttl_jitter must be a share like "10%", not the number 10`},
		"ttl_jitter below zero":       {"", `          ttl_jitter: "-1%"`, `ttl_jitter "-1%": it must be whole per cent`},
		"min_remaining without ttl":   {"", `          min_remaining: 1m`, `min_remaining is 1m0s, but there is no ttl`},
		"min_remaining above the ttl": {
			"", "          ttl: 1h\n          min_remaining: 54m",
			`f.yaml:13:26: min_remaining is 54m0s: it must be less than 54m0s, which is the ttl less its jitter of 10%`,
		},
		"surge 0 with unavailable 0": {
			"    rollout: {max_surge: 0, max_unavailable: 0%}", "",
			`f.yaml:7:14: rollout has max_surge 0 and max_unavailable 0: nothing could ever be replaced`,
		},
		"surge 0 alone":           {"    rollout: {max_surge: 0%}", "", `nothing could ever be replaced`},
		"surge above all":         {"    rollout: {max_surge: 101%}", "", `max_surge is 101%: it must be at most "100%"`},
		"surge of no number":      {"    rollout: {max_surge: many}", "", `max_surge is many: it must be a number or per cent of desired`},
		"unavailable below zero":  {"    rollout: {max_unavailable: -1}", "", `max_unavailable is -1: it must be a number or per cent`},
		"unavailable of no kind":  {"    rollout: {max_unavailable: true}", "", `max_unavailable must be a number or per cent of desired`},
		"no progress deadline":    {"    rollout: {progress_deadline: 0s}", "", `progress_deadline is 0s: it must be between 1s and 168h0m0s`},
		"no creates of template":  {"    creates_in_flight: 0", "", `creates_in_flight is 0: it must be between 1 and 1000000: with 0 nothing`},
		"no creates of preset":    {"", "          creates_in_flight: 0", `creates_in_flight is 0: it must be between 1 and 1000000`},
		"a setting of no rollout": {"    rollout: {surge: 1}", "", `rollout has no setting "surge": it has max_surge, max_unavailable, progress_deadline`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, dryRun := range []bool{true, false} {
				_, err := b.try(file(tc.template, tc.prebuilds), dryRun)
				var problems *templates.Problems
				require.ErrorAs(t, err, &problems)
				require.Contains(t, err.Error(), tc.want)
				require.Equal(t, before, b.dump(t), "nothing is changed")
			}
		})
	}
}

// TestSchedulesAreKept: what is said of lifetimes and schedules is stored, shown when it changes, and no change when it
// is said again.
func TestSchedulesAreKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	file := func(prebuilds string) string {
		return fmt.Sprintf("providers: [{name: here, kind: fake}]\ntemplates: [{name: a, provider: here, spec: {command: [x]}, "+
			"presets: [{name: p, prebuilds: {instances: 3, %s}}]}]", prebuilds)
	}
	const full = `ttl: 8h, ttl_jitter: 20%, min_remaining: 10m, schedule: {timezone: Europe/Berlin, ranges: [` +
		`{cron: "* 8-18 * * 1-5", instances: 5}, {instances: 0, cron: "* * * * 0"}]}`
	b.apply(t, file(full))
	row := b.preset(t, "a", "p")
	require.JSONEq(t, `{"timezone": "Europe/Berlin", "ranges": [{"cron": "* 8-18 * * 1-5", "instances": 5},
		{"cron": "* * * * 0", "instances": 0}]}`, string(row.Schedule))
	require.EqualValues(t, 20, row.TtlJitter)
	require.EqualValues(t, 600, row.MinRemainingS)
	require.Empty(t, b.apply(t, file(full)).Changes)

	key := row.PoolKey
	changes := b.apply(t, file("ttl: 8h")).Changes
	require.Len(t, changes, 1)
	require.Contains(t, told(changes), "schedule: {")
	require.Contains(t, told(changes), "ttl_jitter: 20% -> 10%")
	require.Contains(t, told(changes), "min_remaining: 10m0s -> (none)")
	row = b.preset(t, "a", "p")
	require.Nil(t, row.Schedule)
	require.Equal(t, key, row.PoolKey, "the prebuilds are what they were")
}

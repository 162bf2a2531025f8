package prebuilds

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the golden files and docs/STATE_MACHINE.md anew")

func paused(p *Preset)  { p.Pause = "maintenance of the cluster" }
func broken(p *Preset)  { p.Breaker = "the listing failed" }
func renews(p *Preset)  { p.RenewAhead = 5 * time.Minute }
func deleted(p *Preset) { p.Retired = TemplateDeleted }
func keeps(p *Preset)   { p.KeepOutdated = true }
func tier(running Share) func(*Preset) {
	return func(p *Preset) { p.Running = running }
}

func waiting(n int) func(*Preset) {
	return func(p *Preset) { p.Waiting = n }
}

func failed(streak int, ago time.Duration) func(*Preset) {
	return func(p *Preset) {
		p.FailureStreak, p.LastFailureAt, p.LastFailure = streak, noon.Add(-ago), "image golang:1.26 not found"
	}
}

// TestGoldenPlans shows what is decided in each situation worth a page, as people will read it.
func TestGoldenPlans(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		file, story string
		pool        *pool
		limits      Limits
	}{
		{
			"steady", "The pool is as it should be.",
			newPool(3).add(3, Ready),
			Limits{},
		},
		{
			"empty", "A new preset: everything is to be made.",
			newPool(3),
			Limits{},
		},
		{
			"runners", "Four jobs wait, three runners are busy, and the maximum leaves room for two more.",
			newPool(2).with(runners(Runner{Queued: 4, Busy: 3, Maximum: 7})).add(1, Ready).add(1, Starting),
			Limits{},
		},
		{
			"runners-surplus", "A burst is over: half of what is too much goes, and one that has a job is no part of that.",
			newPool(1).with(runners(Runner{})).add(1, Ready, atJob).add(6, Ready),
			Limits{},
		},
		{
			"runners-stopped", "A person has stopped their forge: nothing is made, for the jobs or to be idle, and the idle one stays.",
			newPool(3).with(runners(Runner{Queued: 2})).with(stopped).add(1, Ready, atJob).add(1, Ready),
			Limits{},
		},
		{
			"runners-drained", "It drains as well: who has no job goes, who has one stays.",
			newPool(3).with(runners(Runner{Queued: 2})).with(drained).add(1, Ready, atJob).add(2, Ready).add(1, Starting).add(1, Provisioning),
			Limits{},
		},
		{
			"refill", "A claim took one of five and another is being made already: only the rest is created.",
			newPool(5).add(3, Ready).add(1, Starting),
			Limits{},
		},
		{
			"waiting", "Two claims wait: they are built for on top of desired.",
			newPool(2).with(waiting(2)).add(2, Starting),
			Limits{},
		},
		{
			"extraneous", "Scaled down from six to two: what costs least goes first, not ready before ready, then the oldest.",
			newPool(2).add(3, Ready).add(1, Starting).add(1, Provisioning, leased).add(1, Provisioning),
			Limits{},
		},
		{
			"rollout_begins", "A new version of a preset of three: the new set is made beside the old one, which stays. " +
				"What was still being made of the old version goes at once.",
			newPool(3).add(3, Ready, old).add(1, Starting, old).add(1, Provisioning, old),
			Limits{},
		},
		{
			"rollout_halfway", "One of the new version is ready, so one of the old version goes, the oldest.",
			newPool(3).with(keeps).add(3, Ready, old).add(1, Ready).add(2, Starting),
			Limits{},
		},
		{
			"rollout_ends", "All of the new version are ready: the last old ones go.",
			newPool(3).add(1, Ready, old).add(3, Ready),
			Limits{},
		},
		{
			"rollout_fails", "The new version cannot be made: the old one stays.",
			newPool(3).with(failed(3, time.Hour)).add(3, Ready, old),
			Limits{},
		},
		{
			"rollout_at_maximum", "No room for a new set beside the old one: what nobody can claim gives its place.",
			newPool(3).add(3, Ready, old),
			Limits{Maximum: 3, Live: 3, Chunk: 100},
		},
		{
			"rollout_at_maximum_kept", "No room, and the old ones can be claimed: one gives its place while none is missing.",
			newPool(3).with(keeps).add(3, Ready, old),
			Limits{Maximum: 3, Live: 3, Chunk: 100},
		},
		{
			"rollout_surge", "Of four, max_surge 25% lets one be made beside the old ones.",
			newPool(4).with(keeps).with(func(p *Preset) { p.MaxSurge = "25%" }).add(4, Ready, old),
			Limits{},
		},
		{
			"rollout_unavailable", "No surge, but one may be missing: it goes, and one is made in its place.",
			newPool(4).with(keeps).with(func(p *Preset) { p.MaxSurge, p.MaxUnavailable = "0", "25%" }).add(4, Ready, old),
			Limits{},
		},
		{
			"rollout_unproven", "Nothing of the new version was ever ready: three are to show that it works, the old ones serve.",
			newPool(8).with(keeps).with(func(p *Preset) { p.Unproven = true }).add(8, Ready, old),
			Limits{},
		},
		{
			"rollout_late", "None of the three became ready in an hour: the rollout stops, the old pool stays.",
			newPool(8).with(keeps).with(func(p *Preset) {
				p.Unproven, p.RolloutAt, p.ProgressDeadline = true, noon.Add(-time.Hour), time.Hour
			}).add(8, Ready, old).add(3, Starting),
			Limits{},
		},
		{
			"outage", "The provider has been away for a while: creates are spaced, but not stopped for good.",
			newPool(2).with(failed(7, time.Minute)).with(func(p *Preset) { p.FailuresMayPass = true }).add(1, Ready),
			Limits{},
		},
		{
			"creates_in_flight", "Of eight, three may be being built at once; an outdated one counts until it is gone.",
			newPool(8).with(func(p *Preset) { p.CreatesInFlight = 3 }).add(1, Ready).add(1, Starting).
				add(1, Starting, old),
			Limits{},
		},
		{
			"expired", "One is past its TTL and is replaced at once; the next expiry is in half an hour.",
			newPool(3).add(1, Ready, expired).add(1, Ready, expires(30*time.Minute)).add(1, Ready),
			Limits{},
		},
		{
			"renewal", "Three of four expire soon: one more than desired is made, a quarter of them. Nothing goes before it is ready.",
			newPool(4).with(renews).add(3, Ready, expires(4*time.Minute)).add(1, Ready),
			Limits{},
		},
		{
			"renewed", "That one is ready: the first to expire goes, and the next one is made.",
			newPool(4).with(renews).add(1, Ready, expires(4*time.Minute)).add(2, Ready, expires(3*time.Minute)).add(2, Ready),
			Limits{},
		},
		{
			"schedule", "Office hours: the schedule wants five, the preset itself only one.",
			newPool(1).with(func(p *Preset) { p.Schedule = mustSchedule("* 8-18 * * *", 5) }).add(3, Ready),
			Limits{},
		},
		{
			"backoff", "The second create in a row failed 4 s ago. What is surplus of the old version goes all the same.",
			newPool(2).with(failed(2, 4*time.Second)).add(1, Ready).add(2, Ready, old),
			Limits{},
		},
		{
			"hard_limit", "Three creates in a row failed: no more until somebody does something, not even for a waiting claim.",
			newPool(2).with(failed(3, time.Hour)).with(waiting(1)),
			Limits{},
		},
		{
			"paused", "Nothing is created and nothing goes while the preset is paused; what would happen is still said.",
			newPool(4).with(paused).add(1, Ready).add(1, Ready, expired).add(1, Starting, old),
			Limits{},
		},
		{
			"breaker", "What the provider says cannot be trusted: nothing is created and nothing goes there.",
			newPool(4).with(broken).add(1, Ready).add(1, Ready, expired).add(1, Starting, old),
			Limits{},
		},
		{
			"rate", "One create is left of a burst of two, and another comes back in 4 s.",
			newPool(3),
			Limits{Chunk: 100, Rate: Rate{Every: 5 * time.Second, Burst: 2, FullAt: noon.Add(4 * time.Second)}.At(noon)},
		},
		{
			"retired", "The template was deleted: all go, whatever they are, and a waiting claim gets nothing.",
			newPool(3).with(deleted).with(waiting(1)).
				add(2, Ready).add(1, Ready, old).add(1, Provisioning).add(1, Quarantined).add(1, Deleting),
			Limits{},
		},
		{
			"on_their_way_out", "Those draining, deleting, quarantined or with an intent are replaced and left alone.",
			newPool(4).add(1, Ready, withIntent).add(1, Draining).add(1, Deleting).add(1, Quarantined),
			Limits{},
		},
		{
			"standby_stops", "Two of five are kept running: those that became ready last are stopped.",
			newPool(5).with(tier("2")).add(4, Ready).add(1, Standby),
			Limits{},
		},
		{
			"standby_starts", "A running one was claimed: one is started in its place, and one is created, to be stopped later.",
			newPool(5).with(tier("40%")).add(1, Ready).add(3, Standby),
			Limits{},
		},
		{
			"standby_waiting", "A claim waits, and what is stopped was not free to be claimed: one more is started for it.",
			newPool(3).with(tier("0")).with(waiting(1)).add(3, Standby),
			Limits{},
		},
		{
			"standby_moving", "One is about to be started and another to be stopped: nothing more is moved.",
			newPool(4).with(tier("2")).add(1, Ready).add(1, Ready, moving).add(1, Standby, moving).add(1, Standby),
			Limits{},
		},
		{
			"standby_ends", "The preset has no standby tier any more: all are started.",
			newPool(3).add(1, Ready).add(2, Standby),
			Limits{},
		},
		{
			"standby_extraneous", "Scaled down: those that are stopped go first.",
			newPool(2).with(tier("2")).add(2, Ready).add(2, Standby),
			Limits{},
		},
		{
			"maximum", "The provider has room for two of three.",
			newPool(3),
			Limits{Maximum: 10, Live: 8, Chunk: 100},
		},
		{
			"chunk", "The pass may create five at this provider.",
			newPool(8),
			Limits{Chunk: 5},
		},
	} {
		t.Run(tc.file, func(t *testing.T) {
			t.Parallel()
			plan, err := tc.pool.plan()
			require.NoError(t, err)
			if tc.limits != (Limits{}) {
				Clamp([]*Plan{&plan}, map[string]Limits{"sim": tc.limits})
			}
			require.Empty(t, Check(tc.pool.preset, tc.pool.workspaces, plan, noon))

			c := plan.Counts
			got := fmt.Sprintf("%s\n\n%s\n%s\nIn short:\n", wrap(tc.story), tc.pool, plan)
			for _, reason := range Words.Reasons(plan.Ledger) {
				got += "- " + reason + "\n"
			}
			got += fmt.Sprintf("\nactual %d, eligible %d, starting %d, stopping %d, deleting %d, outdated %d, extraneous %d, "+
				"expired %d, quarantined %d\n", c.Actual, c.Eligible, c.Starting, c.Stopping, c.Deleting, c.Outdated,
				c.Extraneous, c.Expired, c.Quarantined)
			got = strings.ReplaceAll(got, "00000000-0000-0000-0000-0000000000", "…")
			golden(t, filepath.Join("testdata", tc.file+".golden"), got)
			golden(t, filepath.Join("testdata", "explained", tc.file+".golden"), explained(tc.pool, plan))
		})
	}
}

// golden compares got with a file, or writes the file with -update.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), got, "if this is meant: go test ./coderd/prebuilds -update")
}

// wrap breaks a story at 100 columns.
func wrap(s string) string {
	var b strings.Builder
	column := 0
	for _, word := range strings.Fields(s) {
		switch {
		case column == 0:
		case column+1+len(word) > 100:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}

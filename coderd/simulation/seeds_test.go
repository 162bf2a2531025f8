//go:build !race

package simulation

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/chaos/recordtest"
	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/database"
)

// TestSeeds runs 200 seeds of 500 steps, and those that once fell; PREWARM_SIM_SEEDS and PREWARM_SIM_STEPS say otherwise.
// PREWARM_SIM_FIRST is the first of those to run, and then no others run. PREWARM_SIM_FRESH is how many to run that
// nobody has, from PREWARM_SIM_FRESH_FIRST on, which is drawn if it is not given. With PREWARM_SIM_STOP it ends at the first
// violation, and does not shorten its trace.
func TestSeeds(t *testing.T) {
	steps := number("PREWARM_SIM_STEPS", 500)
	seeds := chosenSeeds(t)
	kept := recordtest.Run{
		Command: fmt.Sprintf("make sim SEEDS=%d STEPS=%d", number("PREWARM_SIM_SEEDS", 200), steps),
		Length:  fmt.Sprintf("%d seeds of %d steps", len(seeds), steps),
	}
	fresh := number("PREWARM_SIM_FRESH", 0)
	switch {
	case os.Getenv("PREWARM_SIM_FIRST") != "":
		kept.Command += fmt.Sprintf(" FIRST=%d", seeds[0])
	case fresh > 0:
		kept.Command += fmt.Sprintf(" FRESH=%d", fresh)
		kept.Length += fmt.Sprintf(", fresh from %d on", seeds[len(seeds)-fresh])
	}
	recordtest.Keep(t, &kept)
	plans := make([]plan, 0)
	for _, seed := range seeds {
		plans = append(plans, plan{Seed: seed, Steps: steps})
	}
	workers := 4 * runtime.NumCPU() // a seed waits for its commits more than it computes
	all := run(t, plans, number("PREWARM_SIM_WORKERS", workers), false)
	slices.SortFunc(all, func(a, b outcome) int { return cmp.Compare(a.Seed, b.Seed) })
	covered := map[string]int{}
	total, shrunk := 0, false
	for _, o := range all {
		total += o.Steps
		for what, n := range o.Coverage {
			covered[what] += n
		}
		if o.Failure == nil {
			continue
		}
		kept.Violations++
		t.Errorf("seed %d, step %d: %s: %s", o.Seed, o.Failure.Step, o.Failure.Invariant, o.Failure.Text)
		t.Logf("run it again: make sim SEEDS=1 FIRST=%d STEPS=%d; and keep it in testdata/seeds.txt", o.Seed, steps)
		if !shrunk && os.Getenv("PREWARM_SIM_STOP") == "" { // one is enough to begin with
			shrunk = true
			p, best := shrink(t, plan{Seed: o.Seed, Steps: steps}, o)
			report(t, p, best)
		}
	}
	t.Logf("%d seeds, %d calls and happenings", len(all), total)
	kept.Faults, kept.Claims = count(covered)
	coverage(t, covered, len(all))
}

//go:embed testdata/seeds.txt
var corpus string

// chosenSeeds are the seeds to run, each once.
func chosenSeeds(t *testing.T) (seeds []uint64) {
	t.Helper()
	consecutive := func(first uint64, n int) {
		for i := range n {
			seeds = append(seeds, first+uint64(i))
		}
	}
	consecutive(uint64(number("PREWARM_SIM_FIRST", 1)), number("PREWARM_SIM_SEEDS", 200))
	if os.Getenv("PREWARM_SIM_FIRST") != "" {
		return seeds
	}
	for line := range strings.Lines(corpus) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		seed, err := strconv.ParseUint(words[0], 10, 64)
		require.NoError(t, err, "testdata/seeds.txt")
		if !slices.Contains(seeds, seed) {
			seeds = append(seeds, seed)
		}
	}
	if n := number("PREWARM_SIM_FRESH", 0); n > 0 {
		first := number("PREWARM_SIM_FRESH_FIRST", 1_000_000+rand.IntN(1_000_000_000))
		t.Logf("%d fresh seeds, from %d on", n, first)
		consecutive(uint64(first), n)
	}
	return seeds
}

// Every run takes the seeds that once fell, but one that is told where to begin.
func TestChosenSeeds(t *testing.T) {
	for _, name := range []string{"PREWARM_SIM_FIRST", "PREWARM_SIM_FRESH", "PREWARM_SIM_FRESH_FIRST"} {
		t.Setenv(name, "")
	}
	t.Setenv("PREWARM_SIM_SEEDS", "2")
	fell := chosenSeeds(t)[2:]
	require.Contains(t, fell, uint64(70171))
	t.Setenv("PREWARM_SIM_FRESH", "3")
	fresh := chosenSeeds(t)[2+len(fell):]
	require.Len(t, fresh, 3)
	require.NotEqual(t, fresh, chosenSeeds(t)[2+len(fell):], "each run draws its own")
	t.Setenv("PREWARM_SIM_FRESH_FIRST", "7000")
	require.Equal(t, append(append([]uint64{1, 2}, fell...), 7000, 7001, 7002), chosenSeeds(t))
	t.Setenv("PREWARM_SIM_FIRST", "70171")
	require.Equal(t, []uint64{70171, 70172}, chosenSeeds(t))
}

// coverage prints how often each row of the table of states, fault and happening came about, and fails for those that
// never did in at least 200 seeds.
func coverage(t *testing.T, covered map[string]int, seeds int) {
	t.Helper()
	want := map[string]bool{}
	for _, t := range prebuilds.Transitions {
		if strings.HasSuffix(t.Event, "for its owner") {
			continue // a provider that hands over is not simulated: TestCoder_handover has a real one
		}
		want[row(string(t.From), string(t.To), t.Event)] = true
	}
	for _, name := range fateNames {
		want[name] = name != ""
	}
	for _, name := range situations {
		want[name] = true
	}
	for _, h := range allHappenings() {
		want[h.kind] = true
	}
	for what := range covered {
		want[what] = true
	}
	for _, what := range slices.Sorted(maps.Keys(want)) {
		if !want[what] {
			continue
		}
		t.Logf("%8d  %s", covered[what], what)
		if covered[what] == 0 && seeds >= 200 {
			t.Errorf("never happened: %s", what)
		}
	}
}

// count is how many faults and answered claims were covered.
func count(covered map[string]int) (faults, claims int) {
	for _, name := range slices.Concat(slices.Collect(maps.Values(fateNames)), accidents) {
		faults += covered[name]
	}
	for _, outcome := range []database.ClaimOutcome{
		database.ClaimOutcomeHit, database.ClaimOutcomeWaited, database.ClaimOutcomeMiss, database.ClaimOutcomeCold, "error",
	} {
		claims += covered["claim "+string(outcome)]
	}
	return faults, claims
}

// situations are what seeds have to come to, beside what is done to them.
var situations = []string{
	"claim before an intent", "orphan swept", "clear miss", "call wanders", "slow transaction", "late call",
	"planned by a schedule", "retry of a kept failure: ok", "last word when another has the job", "waits for a lock",
	"busy veto", "claimed by a job", "delivery lost", "delivery twice", "vanished: ready", "vanished: standby",
	"vanished: claimed", "listing leaves one out", "breaker open",
}

// TestReplay runs the seed of PREWARM_SIM_SEED again and prints its trace; PREWARM_SIM_WITHOUT is what to leave out.
func TestReplay(t *testing.T) {
	seed, err := strconv.ParseUint(os.Getenv("PREWARM_SIM_SEED"), 10, 64)
	if err != nil {
		return
	}
	p := plan{Seed: seed, Steps: number("PREWARM_SIM_STEPS", 500), Verbose: os.Getenv("PREWARM_SIM_LOG") != ""}
	if without := os.Getenv("PREWARM_SIM_WITHOUT"); without != "" {
		p.Without = strings.Split(without, ",")
	}
	for _, o := range run(t, []plan{p}, 1, true) {
		t.Log("\n" + strings.Join(o.Trace, "\n") + "\n" + strings.Join(o.Logs, "\n"))
		t.Logf("hash %s, steps %d", o.Hash, o.Steps)
		if o.Failure != nil {
			t.Errorf("%s: %s", o.Failure.Invariant, o.Failure.Text)
		}
	}
}

// TestSameSeedSameTrace: a seed that runs twice has the same trace, to the letter.
func TestSameSeedSameTrace(t *testing.T) {
	plans := make([]plan, 0, 3)
	for seed := range uint64(number("PREWARM_SIM_TWICE", 3)) {
		plans = append(plans, plan{Seed: seed + 1, Steps: 500})
	}
	plans = append(plans, plan{Seed: 604096, Steps: 500}) // it had two, by which case a select chose
	first := run(t, plans, 1, true)
	for _, o := range first {
		seen := []outcome{o}
		same := false
		// The operating system may take the one thread away for so long that the runtime puts another goroutine on it,
		// which a busy machine has been seen to do, to the first run as well as to those after it; it does not twice at
		// the same place.
		for range 3 {
			got := run(t, []plan{{Seed: o.Seed, Steps: 500}}, 1, true)
			if len(got) != 1 {
				continue
			}
			if same = slices.ContainsFunc(seen, func(s outcome) bool { return s.Hash == got[0].Hash }); same {
				break
			}
			t.Logf("seed %d: %s and %s: %s", o.Seed, o.Hash, got[0].Hash, difference(o.Trace, got[0].Trace))
			seen = append(seen, got[0])
		}
		if !same {
			t.Errorf("seed %d has another trace each time", o.Seed)
		}
	}
}

func difference(a, b []string) string {
	for k := range min(len(a), len(b)) {
		if a[k] != b[k] {
			from := max(0, k-4)
			return "\n" + strings.Join(a[from:min(len(a), k+2)], "\n") + "\n---\n" + strings.Join(b[from:min(len(b), k+2)], "\n")
		}
	}
	return "one is longer"
}

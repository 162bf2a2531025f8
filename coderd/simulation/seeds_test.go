//go:build !race

package simulation

import (
	"cmp"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// TestSeeds runs 200 seeds of 500 steps; PREWARM_SIM_SEEDS,
// PREWARM_SIM_STEPS and PREWARM_SIM_FIRST say otherwise. With PREWARM_SIM_STOP it ends at the first violation, and does
// not shorten its trace.
func TestSeeds(t *testing.T) {
	steps := number("PREWARM_SIM_STEPS", 500)
	first := number("PREWARM_SIM_FIRST", 1)
	seeds := number("PREWARM_SIM_SEEDS", 200)
	plans := make([]plan, 0, seeds)
	for i := range seeds {
		plans = append(plans, plan{Seed: uint64(first + i), Steps: steps})
	}
	all := run(t, plans, number("PREWARM_SIM_WORKERS", runtime.NumCPU()), false)
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
		t.Errorf("seed %d, step %d: %s: %s", o.Seed, o.Failure.Step, o.Failure.Invariant, o.Failure.Text)
		if !shrunk && os.Getenv("PREWARM_SIM_STOP") == "" { // one is enough to begin with
			shrunk = true
			p, best := shrink(t, plan{Seed: o.Seed, Steps: steps}, o)
			report(t, p, best)
		}
	}
	t.Logf("%d seeds, %d calls and happenings", len(all), total)
	coverage(t, covered, len(all))
}

// coverage prints how often each row of the table of states, fault and happening came about, and fails for those that
// never did in at least 200 seeds.
func coverage(t *testing.T, covered map[string]int, seeds int) {
	t.Helper()
	want := map[string]bool{}
	for _, t := range prebuilds.Transitions {
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

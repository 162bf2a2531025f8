//go:build !race

package simulation

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// shrinkTries bounds how often a failing seed is run again to find a shorter trace.
const shrinkTries = 30

// shrink leaves out as many kinds of faults and happenings as the violation survives, half of them at a time, then a
// quarter, and so on, and returns the run with the shortest trace.
func shrink(t *testing.T, p plan, failed outcome) (plan, outcome) {
	t.Helper()
	known := map[string]bool{}
	for _, name := range fateNames {
		known[name] = name != ""
	}
	known["forge"], known["delivery lost"], known["delivery twice"] = true, true, true
	known[behindTheBack], known["listing leaves one out"] = true, true
	for _, h := range allHappenings() {
		known[h.kind] = true
	}
	kinds := slices.Sorted(maps.Keys(failed.Coverage))
	kinds = slices.DeleteFunc(kinds, func(k string) bool { return !known[k] })
	best, bestPlan := failed, p
	tries := 0
	for size := len(kinds); size > 0 && tries < shrinkTries; size = (size + 1) / 2 {
		for at := 0; at < len(kinds) && tries < shrinkTries; {
			next := bestPlan
			without := kinds[at:min(at+size, len(kinds))]
			next.Without = slices.Concat(bestPlan.Without, without)
			tries++
			got := run(t, []plan{next}, 1, true)
			if len(got) == 1 && got[0].Failure != nil && got[0].Failure.Invariant == failed.Failure.Invariant {
				bestPlan, best = next, got[0]
				kinds = slices.Delete(slices.Clone(kinds), at, min(at+size, len(kinds)))
				continue
			}
			at += size
		}
		if size == 1 {
			break
		}
	}
	return bestPlan, best
}

// report prints a violation with the shortest trace found, and how to see it again.
func report(t *testing.T, p plan, o outcome) {
	t.Helper()
	const most = 1000 // lines: what fits a screen that scrolls
	trace := o.Trace
	if n := len(trace); n > most {
		trace = append([]string{fmt.Sprintf("(%d lines before, which the replay shows)", n-most)}, trace[n-most:]...)
	}
	settings := ""
	for _, name := range []string{"PREWARM_SIM_FORGE", "PREWARM_SIM_BEHIND", "PREWARM_SIM_TERMS"} {
		if v := os.Getenv(name); v != "" {
			settings += name + "=" + v + " "
		}
	}
	t.Errorf("seed %d, step %d: %s: %s\n%s\nAgain: %sPREWARM_SIM_SEED=%d PREWARM_SIM_STEPS=%d PREWARM_SIM_WITHOUT='%s' "+
		"go test ./coderd/simulation -run TestReplay -v", o.Seed, o.Failure.Step, o.Failure.Invariant, o.Failure.Text,
		strings.Join(trace, "\n"), settings, o.Seed, p.Steps, strings.Join(p.Without, ","))
}

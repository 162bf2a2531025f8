package simulation

import (
	"os"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// TestSeeds runs 200 seeds of 500 steps; PREWARM_SIM_SEEDS, PREWARM_SIM_STEPS and PREWARM_SIM_FIRST say otherwise.
func TestSeeds(t *testing.T) {
	steps := number("PREWARM_SIM_STEPS", 500)
	first := number("PREWARM_SIM_FIRST", 1)
	var plans []plan
	for i := range number("PREWARM_SIM_SEEDS", 200) {
		plans = append(plans, plan{Seed: uint64(first + i), Steps: steps})
	}
	for _, o := range run(t, plans, runtime.NumCPU(), false) {
		if o.Failure != nil {
			t.Errorf("seed %d, step %d: %s: %s", o.Seed, o.Failure.Step, o.Failure.Invariant, o.Failure.Text)
		}
	}
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
	var plans []plan
	for seed := range uint64(number("PREWARM_SIM_TWICE", 3)) {
		plans = append(plans, plan{Seed: seed + 1, Steps: 500})
	}
	first, second := run(t, plans, 1, true), run(t, plans, 1, true)
	for i := range first {
		if first[i].Hash == second[i].Hash {
			continue
		}
		for k := range min(len(first[i].Trace), len(second[i].Trace)) {
			if first[i].Trace[k] != second[i].Trace[k] {
				t.Errorf("seed %d differs at line %d:\n%s\n%s", first[i].Seed, k, strings.Join(first[i].Trace[max(0, k-5):k+3], "\n"),
					strings.Join(second[i].Trace[max(0, k-5):k+3], "\n"))
				break
			}
		}
	}
}

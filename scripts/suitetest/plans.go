package main

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
)

// step is one command of a plan.
type step struct {
	name    string
	dir     string   // relative to the root of the repository; empty: the root
	env     []string // beside the run's
	command []string
	beside  bool // it runs beside those that follow, one such step after the other; what it prints comes at the end
}

// plan is a list of steps under one name.
type plan struct {
	aim      time.Duration // how long it should take on two idle cores with warm caches; 0: it is as long as it is
	postgres bool          // whether its steps share a server
	steps    func(ctx context.Context, opts options) ([]step, error)
}

var plans = map[string]plan{
	"quick": {aim: time.Minute, steps: quick},
	"test":  {aim: 8 * time.Minute, postgres: true, steps: test},
	"ci":    {aim: 17 * time.Minute, postgres: true, steps: fixed(ciSuites)}, // after `test`: 25 minutes with it
	"long":  {postgres: true, steps: fixed(longSuites)},
}

func planNames() []string { return slices.Sorted(maps.Keys(plans)) }

func fixed(suites []step) func(context.Context, options) ([]step, error) {
	return func(context.Context, options) ([]step, error) { return suites, nil }
}

// quick is for the minute while one works: what a compiler and pure functions find.
func quick(ctx context.Context, opts options) ([]step, error) {
	if len(opts.packages) > 0 {
		return []step{
			{name: "vet", command: append([]string{"go", "vet"}, opts.packages...)},
			{name: "tests", command: append([]string{"go", "test"}, opts.packages...)},
			imports(),
		}, nil
	}
	all, err := packages(ctx)
	if err != nil {
		return nil, err
	}
	return []step{
		{name: "vet", command: []string{"go", "vet", "./..."}},
		{name: "pure", command: append([]string{"go", "test"}, all.pure...)},
		imports(),
	}, nil
}

// imports are the doors between the rooms; the rules of wording are a pure package.
func imports() step {
	return step{name: "imports", command: []string{"go", "test", "-run", "^TestImports", "./coderd"}}
}

// test is what every change must pass.
func test(ctx context.Context, opts options) ([]step, error) {
	all, err := packages(ctx)
	if err != nil {
		return nil, err
	}
	raced, plain := all.concurrent, all.sequential
	if !opts.race {
		raced, plain = nil, append(slices.Clone(plain), raced...)
	}
	steps := []step{
		target("generated", "gen-check"),
		{name: "vet", command: []string{"go", "vet", "./..."}},
		goTests("unit", 15*time.Minute, nil, plain...),
	}
	if len(raced) > 0 {
		steps = append(steps, goTests("race", 15*time.Minute, nil, append([]string{"-race"}, raced...)...))
	}
	steps = append(steps, target("pages", "site-test"))
	return append(steps, shortSuites...), nil
}

// shortTests are those of the suites of processes that `make test` runs. CI runs the others after it, each once.
const shortTests = "^(TestExact|TestClaimers_exactUnderConcurrency|TestSamples|TestDockerExample|TestPoints|TestKill|TestInside|" +
	"TestInside_badNetworks|TestActs|TestSynchronous|TestAsynchronous)$"

// shortSuites are one seeded short version of each long suite. A simulated world waits for each of its commits, and
// processes for one another: neither alone keeps two processors busy.
var shortSuites = []step{
	beside(simulation(20, 0)),
	beside(replay(20)),
	suite("processes", 10*time.Minute, []string{"PREWARM_SEED=1"}, "-p=2", "-parallel=4", "-run", shortTests,
		"./coderd/e2e", "./coderd/faults", "./coderd/chaos", "./coderd/chaos/engine", "./coderd/chaos/failover"),
	suite("storm", 10*time.Minute, []string{"PREWARM_CHAOS=20s", "PREWARM_SEED=1"}, "./coderd/chaos/storm"),
}

// ciSuites are what CI runs after `make test`: the long suites in short, but for what that has run.
var ciSuites = []step{
	// The limit is for a hang: the tests of the package together take minutes on idle processors, and longer on busy ones.
	suite("e2e", 20*time.Minute, nil, "-skip", shortTests+"|^TestClusterChart$", "./coderd/e2e", "./deploy"), // below
	suite("faults", 10*time.Minute, []string{"PREWARM_SEED=1"}, "-skip", shortTests, "./coderd/faults"),
	suite("chaos", 10*time.Minute, []string{"PREWARM_SEED=1"}, "-skip", shortTests, "./coderd/chaos"),
	suite("storm", 10*time.Minute, []string{"PREWARM_CHAOS=1m", "PREWARM_SEED=2"}, "./coderd/chaos/storm"),
	suite("engine", 10*time.Minute, []string{"PREWARM_SEED=1"}, "-skip", shortTests, "./coderd/chaos/engine"),
	upgrade,
	simulation(1, 50),
	// These need the parts of scripts/k8s.sh. The first wait for pods, so that more of them run at once than of others.
	suite("kubernetes", 20*time.Minute, []string{"PREWARM_SEED=1"}, "-parallel=8", "./coderd/e2e/kubernetes"),
	suite("scale", 10*time.Minute, nil, "./coderd/e2e/kubernetes/scale"),
	suite("chart", 10*time.Minute, nil, "-run", "^TestClusterChart$", "./deploy"),
}

// longSuites are all long suites in full.
var longSuites = []step{
	suite("claims", time.Hour, []string{"PREWARM_ROUNDS=100"}, "./coderd/claim"),
	suite("tunnels", time.Hour, []string{"PREWARM_ROUNDS=1"}, "-run", "^TestTunnelCuts$", "./coderd/api"),
	suite("e2e", time.Hour, []string{"PREWARM_ROUNDS=200"}, "./coderd/e2e"),
	suite("deploy", time.Hour, []string{"PREWARM_ROUNDS=200"}, "-parallel=3", "./deploy"),
	suite("hosts", time.Hour, []string{"PREWARM_ROUNDS=30"}, "./coderd/provider/hosts"),
	suite("terraform", time.Hour, []string{"PREWARM_ROUNDS=200"}, "-run", "^TestKills$", "./coderd/provider/terraform"),
	target("opentofu", "tofu-test"), // what `make test` does with Terraform
	suite("faults", time.Hour, []string{"PREWARM_ROUNDS=2000"}, "./coderd/faults"),
	suite("chaos", time.Hour, []string{"PREWARM_ROUNDS=50"}, "./coderd/chaos"),
	suite("storm", time.Hour, []string{"PREWARM_CHAOS=10m"}, "./coderd/chaos/storm"),
	suite("failover", time.Hour, []string{"PREWARM_ROUNDS=20"}, "./coderd/chaos/failover"),
	suite("engine", time.Hour, []string{"PREWARM_ROUNDS=200"}, "./coderd/chaos/engine"),
	target("first hour", "first-hour"),
	upgrade,
	suite("kubernetes", time.Hour, []string{"PREWARM_ROUNDS=20", "CI=true"}, "-parallel=8", "./coderd/e2e/kubernetes"),
	suite("scale", time.Hour, []string{"PREWARM_PODS=5000", "CI=true"}, "-v", "./coderd/e2e/kubernetes/scale"),
	simulation(200, 50),
	replay(200),
	fuzz("FuzzParse", "./coderd/templates"),
	fuzz("FuzzJob", "./coderd/demand/github"),
	fuzz("FuzzJob", "./coderd/demand/gitea"),
	fuzz("FuzzSpec", "./coderd/provider/local"),
	fuzz("FuzzSpec", "./coderd/provider/docker"),
	fuzz("FuzzSpec", "./coderd/provider/hosts"),
	fuzz("FuzzExec", "./coderd/sdk"),
	fuzz("FuzzToken", "./coderd/instance"),
}

// fuzz tries inputs that nobody thought of, for 20 s. One that fails is written to testdata/fuzz and fails every run of the
// package's tests from then on: keep it with the mend.
func fuzz(target, of string) step {
	return step{name: "fuzz " + of, command: []string{"go", "test", "-run", "^$", "-fuzz", "^" + target + "$", "-fuzztime", "20s", of}}
}

// upgrade is the release before beside this one.
var upgrade = suite("upgrade", 10*time.Minute, nil, "./coderd/e2e/upgrade")

// target is a step of the Makefile. It gets no ARGS: those of the make that began the plan are for the plan.
func target(name, of string) step {
	return step{name: name, command: []string{"make", "--no-print-directory", "ARGS=", of}}
}

func gotestsum(format string, args ...string) []string {
	return append([]string{
		"go", "tool", "-modfile=scripts/tools/go.mod", "gotestsum", "--format", format,
		"--format-hide-empty-pkg", "--",
	}, args...)
}

// goTests is a step of unit and database tests. Of each package some more run at once than there are processors, since they
// wait for PostgreSQL and for one another; with many more nothing is done sooner, and all of it takes longer than it may.
func goTests(name string, limit time.Duration, env []string, args ...string) step {
	return step{name: name, env: env, command: gotestsum("pkgname", append([]string{"-count=1", "-p=2", "-parallel=6", "-timeout", limit.String()}, args...)...)}
}

// suite is a step of tests that run whole processes: one package at a time, with a line for each test.
func suite(name string, limit time.Duration, env []string, args ...string) step {
	args = append([]string{"-count=1", "-p=1", "-parallel=6", "-timeout", limit.String()}, args...)
	return step{name: name, env: env, command: gotestsum("testname", args...)}
}

func beside(s step) step {
	s.beside = true
	return s
}

// simulation runs seeds that stay the same, those that once fell, and fresh ones: these are drawn here, so that the line of
// the step says which they are.
func simulation(seeds, fresh int) step {
	env := []string{
		"PREWARM_SIM_SEEDS=" + strconv.Itoa(seeds),
		"PREWARM_SIM_TWICE=" + strconv.Itoa(min(3, (seeds+fresh)/20)),
	}
	if fresh > 0 {
		env = append(env, "PREWARM_SIM_FRESH="+strconv.Itoa(fresh),
			"PREWARM_SIM_FRESH_FIRST="+strconv.Itoa(1_000_000+rand.IntN(1_000_000_000)))
	}
	return suite("simulation", time.Hour, env, "./coderd/simulation")
}

func replay(orders int) step {
	return suite("replay", time.Hour, []string{"PREWARM_ROUNDS=" + strconv.Itoa(orders)}, "./coderd/demand/replay")
}

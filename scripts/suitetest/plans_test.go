package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A package that is renamed must not fall out of its list, nor a new one out of all plans.
func TestPackages(t *testing.T) {
	t.Chdir("../..")
	for _, list := range [][]string{suites, sequential, process, longest} {
		for _, name := range list {
			require.DirExists(t, name)
		}
	}
	all, err := packages(t.Context())
	require.NoError(t, err)
	for _, name := range []string{"./coderd/claim", "./database/pubsub", "./coderd/lifecycle"} {
		require.Contains(t, all.concurrent, name, "runs with the race detector")
		require.NotContains(t, all.pure, name, "needs PostgreSQL")
	}
	require.Equal(t, []string{"./coderd/provider/terraform", "./coderd/api"}, all.concurrent[:2])
	require.Equal(t, []string{"./coderd/provider/hosts", "./database", "./coderd/sizing"}, all.sequential[:3])
	require.Contains(t, all.pure, "./coderd/prebuilds")
	require.Contains(t, all.sequential, "./scripts/rules")

	// Every suite is a step of CI, which runs `make test` too, and of the long plan, but for what needs a real Gitea.
	for name, steps := range map[string][]step{"ci": slices.Concat(shortSuites, ciSuites), "long": longSuites} {
		var words []string
		for _, s := range steps {
			words = append(words, s.command...)
		}
		for _, suite := range suites {
			if suite == "coderd/e2e/gitea" {
				continue
			}
			require.True(t, slices.Contains(words, "./"+suite), "%s does not run %s", name, suite)
		}
	}
}

// What CI leaves out, since `make test` has run it, `make test` does run.
func TestShortTests(t *testing.T) {
	t.Chdir("../..")
	short := regexp.MustCompile(shortTests)
	processes := shortSuites[slices.IndexFunc(shortSuites, func(s step) bool { return s.name == "processes" })]
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	for _, s := range ciSuites {
		at := slices.Index(s.command, "-skip")
		if at < 0 {
			continue
		}
		require.True(t, strings.HasPrefix(s.command[at+1], shortTests), s.name)
		for _, of := range s.command[at+2:] {
			files, err := filepath.Glob(of + "/*_test.go")
			require.NoError(t, err)
			require.NotEmpty(t, files, of)
			for _, name := range files {
				text, err := os.ReadFile(name)
				require.NoError(t, err)
				for _, found := range declared.FindAllSubmatch(text, -1) {
					if short.Match(found[1]) {
						require.Contains(t, processes.command, of, "nothing runs %s", found[1])
					}
				}
			}
		}
	}
}

// Each run of CI takes seeds that no other took, and says which they are.
func TestSimulation_fresh(t *testing.T) {
	const first = "PREWARM_SIM_FRESH_FIRST="
	one, other := simulation(1, 50), simulation(1, 50)
	require.Contains(t, one.env, "PREWARM_SIM_SEEDS=1")
	require.Contains(t, one.env, "PREWARM_SIM_FRESH=50")
	require.True(t, strings.HasPrefix(one.env[len(one.env)-1], first), one.env)
	require.NotEqual(t, one.env, other.env)
	require.NotContains(t, strings.Join(simulation(20, 0).env, " "), "FRESH")
}

func TestReport(t *testing.T) {
	var out bytes.Buffer
	results := []result{{"vet", 2 * time.Second, nil}, {"unit", time.Minute, errors.New("exit status 1")}}
	err := report(&out, plan{aim: time.Minute}, results, 62*time.Second, nil)
	require.EqualError(t, err, "failed: unit")
	require.Contains(t, out.String(), "unit              60s  exit status 1")
	require.Contains(t, out.String(), "longer than it should")
	require.NoError(t, report(&out, plan{}, results[:1], time.Second, nil))
	require.EqualError(t, report(&out, plan{}, results[:1], time.Second, context.Canceled), "interrupted")
}

func TestChoose(t *testing.T) {
	steps := []step{{name: "vet"}, {name: "unit"}}
	chosen, err := choose(steps, names("unit"))
	require.NoError(t, err)
	require.Equal(t, []step{{name: "unit"}}, chosen)
	_, err = choose(steps, names("unit,nothing"))
	require.ErrorContains(t, err, "the steps are vet, unit")
}

// A failed step does not stop the next one, and what a step is given reaches it.
func TestRun(t *testing.T) {
	marker := t.TempDir() + "/ran"
	p := plan{steps: fixed([]step{
		{name: "fails", command: []string{"false"}},
		{name: "runs", env: []string{"WHERE=" + marker}, command: []string{"sh", "-c", "echo yes >$WHERE"}},
	})}
	err := run(t.Context(), p, options{})
	require.EqualError(t, err, "failed: fails")
	written, err := os.ReadFile(marker)
	require.NoError(t, err)
	require.Equal(t, "yes", strings.TrimSpace(string(written)))
}

// A step runs beside those that follow it, one such step after the other. What it prints comes after theirs.
func TestPerform_beside(t *testing.T) {
	dir := t.TempDir()
	in := func(name, script string) step {
		return step{name: name, dir: dir, command: []string{"sh", "-ec", script}}
	}
	const until = "for i in $(seq 3000); do [ -e %s ] && exit; sleep 0.01; done; exit 1"
	steps := []step{
		beside(in("first", fmt.Sprintf("echo one; touch first; "+until, "follows"))),
		beside(in("second", "[ -e follows ]; echo two")),
		in("follows", fmt.Sprintf("touch follows; echo three; "+until, "first")),
		in("fails", "exit 3"),
		beside(in("last", "echo four")),
	}
	var out bytes.Buffer
	results := perform(t.Context(), &out, steps, os.Environ())
	var outcomes []string
	for _, r := range results {
		outcomes = append(outcomes, fmt.Sprint(r.name, " ", r.err))
	}
	require.Equal(t, []string{"first <nil>", "second <nil>", "follows <nil>", "fails exit status 3", "last <nil>"}, outcomes)
	printed := regexp.MustCompile(`(?m)^(one|two|three|four)$`).FindAllString(out.String(), -1)
	require.Equal(t, []string{"three", "four", "one", "two"}, printed)
}

// A step of the Makefile does not get the ARGS of `make test-long ARGS='-only opentofu'`.
func TestRun_target(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("Makefile", []byte("made:\n\t@echo 'given: $(ARGS)' >written\n"), 0o600))
	t.Setenv("MAKEFLAGS", ` -- ARGS=-only\ opentofu`) // what make gives its commands
	require.NoError(t, run(t.Context(), plan{steps: fixed([]step{target("one", "made")})}, options{}))
	written, err := os.ReadFile("written")
	require.NoError(t, err)
	require.Equal(t, "given:", strings.TrimSpace(string(written)))
}

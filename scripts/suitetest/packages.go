package main

import (
	"cmp"
	"context"
	"os/exec"
	"slices"
	"strings"

	"golang.org/x/xerrors"
)

const module = "github.com/prewarm-dev/prewarm"

// suites are the packages of the long suites. They have steps of their own.
var suites = []string{
	"coderd/chaos", "coderd/chaos/engine", "coderd/chaos/failover", "coderd/chaos/storm", "coderd/demand/replay", "coderd/e2e",
	"coderd/e2e/gitea", "coderd/e2e/kubernetes", "coderd/e2e/kubernetes/scale",
	"coderd/e2e/upgrade", "coderd/faults", "coderd/simulation", "deploy",
}

// sequential are the packages that the race detector has nothing to say about: one goroutine, or a process or an SQL
// statement of which a test sees the outcome only. Every other package runs with it.
var sequential = []string{
	"cmd/prewarm", "coderd/autosize", "coderd/chaos/judge", "coderd/seal", "coderd/humanlog",
	"coderd/prebuilds", "coderd/provider/conformance", "coderd/provider/docker", "coderd/provider/external",
	"coderd/provider/hosts", "coderd/provider/kubernetes", "coderd/provider/local", "coderd/retention", "coderd/sizing", "coderd/sizing/sizingtest",
	"coderd/templates", "database", "database/embedded", "examples", "scripts", "site",
}

// process are the packages beside the suites that start servers of their own kind, too slow for `make quick`.
var process = []string{
	"coderd/demand/forgetest", "coderd/provider/docker", "coderd/provider/docker/dockertest", "coderd/provider/external", "coderd/provider/hosts",
	"coderd/provider/local", "database/embedded",
}

// longest are the packages that a step begins with, so that none of them is left to run alone at its end.
var longest = []string{"coderd/provider/terraform", "coderd/api", "coderd/provider/hosts", "database", "coderd/sizing"}

// testPackages are the packages with tests, but for the suites.
type testPackages struct {
	pure       []string // need no PostgreSQL
	concurrent []string // run with the race detector
	sequential []string
}

func packages(ctx context.Context) (testPackages, error) {
	const format = `{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{join .TestImports " "}} {{join .XTestImports " "}}{{end}}`
	out, err := exec.CommandContext(ctx, "go", "list", "-f", format, "./...").Output()
	if err != nil {
		return testPackages{}, xerrors.Errorf("list packages: %w", err)
	}
	var all testPackages
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		name := strings.TrimPrefix(words[0], module+"/")
		if slices.Contains(suites, name) {
			continue
		}
		if within(sequential, name) {
			all.sequential = append(all.sequential, "./"+name)
		} else {
			all.concurrent = append(all.concurrent, "./"+name)
		}
		needsServer := slices.ContainsFunc(words[1:], func(imported string) bool {
			return strings.HasSuffix(imported, "/dbtest") || strings.HasSuffix(imported, "/coderdtest") ||
				strings.HasSuffix(imported, "/e2etest")
		})
		if !needsServer && !within(process, name) {
			all.pure = append(all.pure, "./"+name)
		}
	}
	for _, list := range [][]string{all.sequential, all.concurrent} {
		slices.SortStableFunc(list, func(a, b string) int { return cmp.Compare(place(a), place(b)) })
	}
	return all, nil
}

// place is where in the list of the longest a package is, or behind all of them.
func place(name string) int {
	if at := slices.Index(longest, strings.TrimPrefix(name, "./")); at >= 0 {
		return at
	}
	return len(longest)
}

// within says whether a package is one of the list, or below "scripts".
func within(list []string, name string) bool {
	return slices.Contains(list, name) || slices.Contains(list, strings.SplitN(name, "/", 2)[0]) && strings.HasPrefix(name, "scripts/")
}

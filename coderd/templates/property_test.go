package templates_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// document draws a valid file over few names, so that files meet in them.
func document(t *rapid.T) string {
	var b strings.Builder
	b.WriteString("providers:\n  - {name: here, kind: fake}\n  - {name: there, kind: fake, maximum: ")
	fmt.Fprintf(&b, "%d}\n", rapid.IntRange(0, 3).Draw(t, "maximum"))
	b.WriteString("templates:\n")
	for _, name := range rapid.Permutation([]string{"a", "b", "c"}).Draw(t, "templates")[:rapid.IntRange(1, 3).Draw(t, "n")] {
		fmt.Fprintf(&b, "  - name: %s\n    provider: %s\n    keep_outdated: %t\n    idle_cost_per_hour: %g\n    spec: {command: [x], n: %d, f: %g}\n",
			name, rapid.SampledFrom([]string{"here", "there"}).Draw(t, "provider"), rapid.Bool().Draw(t, "keep"), rapid.SampledFrom([]float64{0, 0.1, 3}).Draw(t, "cost"),
			rapid.IntRange(0, 2).Draw(t, "spec"), rapid.SampledFrom([]float64{0.1, 1, 1e3, 1e20, 2.5e-7}).Draw(t, "float"))
		b.WriteString("    presets:\n")
		for _, preset := range rapid.Permutation([]string{"p", "q"}).Draw(t, "presets") {
			fmt.Fprintf(&b, "      - name: %s\n", preset)
			if rapid.Bool().Draw(t, "parameters") {
				fmt.Fprintf(&b, "        parameters: {cpu: %d, text: %q}\n", rapid.IntRange(1, 2).Draw(t, "cpu"),
					rapid.StringMatching(`[ -~]{0,8}`).Draw(t, "text"))
			}
			if rapid.Bool().Draw(t, "pool") {
				fmt.Fprintf(&b, "        prebuilds: {instances: %d, ttl: %ds%s}\n", rapid.IntRange(0, 5).Draw(t, "instances"),
					rapid.IntRange(1, 3).Draw(t, "ttl"), rapid.SampledFrom([]string{
						"", ", autosize: {mode: off, max: 3}", ", autosize: {mode: apply, max: 3, target: 99.9%}",
						", autosize: {mode: forecast, min: 0, max: 3, timezone: Europe/Berlin}",
					}).Draw(t, "autosize"))
			}
		}
	}
	return b.String()
}

// TestApplyTwice: whatever was applied before, a file applied twice changes nothing the second time, and a dry run tells
// exactly what an apply does.
func TestApplyTwice(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rapid.Check(t, func(rt *rapid.T) {
		source := document(rt)
		dry, err := b.try(source, true)
		require.NoError(rt, err, source)
		done, err := b.try(source, false)
		require.NoError(rt, err, source)
		require.Equal(rt, dry.Changes, done.Changes, source)
		again, err := b.try(source, false)
		require.NoError(rt, err, source)
		require.Empty(rt, again.Changes, source)
	})
}

// TestApplyAtOnce: applies of different files that name the same things in different orders, at first new and then known,
// wait for one another and never deadlock; what is there in the end is what one of them said, and not a mixture.
func TestApplyAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t, "providers: [{name: here, kind: fake}]")
	file := func(round, i int) string {
		names := []string{"a", "b", "c", "d"}
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		var source strings.Builder
		if i%2 == 1 {
			fmt.Fprintf(&source, "providers: [{name: p%d, kind: fake}, {name: here, kind: fake, maximum: %d}]\n", round, i)
		}
		source.WriteString("templates:\n")
		for _, name := range names {
			fmt.Fprintf(&source, "- {name: %s%d, provider: here, spec: {command: [x], n: %d}, "+
				"presets: [{name: p, prebuilds: {instances: %d}}, {name: p%d}]}\n", name, round/3, i, i, i)
		}
		return source.String()
	}
	const rounds, files = 30, 4
	for round := range rounds {
		var wg sync.WaitGroup
		errs := make([]error, files)
		for i := range files {
			source := file(round, i)
			wg.Go(func() { _, errs[i] = b.try(source, false) })
		}
		wg.Wait()
		for _, err := range errs {
			require.NoError(t, err)
		}
		template := func(name string) string { return fmt.Sprintf("%s%d", name, round/3) }
		last := *b.preset(t, template("a"), "p").Instances
		for _, name := range []string{"b", "c", "d"} {
			require.Equal(t, last, *b.preset(t, template(name), "p").Instances, "all of one file")
			require.NotEmpty(t, b.preset(t, template(name), fmt.Sprintf("p%d", last)).ID)
		}
	}
	var deadlocks int
	require.NoError(t, b.Store.Pool.QueryRow(context.Background(),
		"SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").Scan(&deadlocks))
	require.Zero(t, deadlocks)
}

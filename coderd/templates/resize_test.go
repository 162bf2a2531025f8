package templates_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/templates"
)

// resized applies the file of a resize without doing it, and gives what it would change.
func (b bench) resized(t require.TestingT, template, preset string, instances int) []string {
	file, err := b.Resized(context.Background(), b.by, template, preset, instances)
	require.NoError(t, err)
	result, err := b.try(file, true)
	require.NoError(t, err, file)
	changes := []string{}
	for _, c := range result.Changes {
		for _, f := range c.Fields {
			changes = append(changes, c.Action+" "+c.Kind+" "+c.Name+" "+f)
		}
		if len(c.Fields) == 0 {
			changes = append(changes, c.Action+" "+c.Kind+" "+c.Name)
		}
	}
	return changes
}

// capable is a provider that can do all that a template may ask for.
type capable struct {
	hosting
	provider.Resetter
	provider.Stopper
}

// everything is a template with every setting that there is.
const everything = `
providers: [{name: here, kind: fake}]
templates:
  - name: full
    description: "Everything: 'quoted', \"twice\", # no comment\nand ü in two lines"
    provider: here
    keep_outdated: false
    rollout: {max_surge: 50%, max_unavailable: 2, progress_deadline: 90m}
    creates_in_flight: 3
    boot_timeout: 5m
    idle_cost_per_hour: 0.12
    stopped_cost_per_hour: 0
    spec: {command: [sh, -c, "echo <&>"], n: 3, f: 1e20, small: 2.5e-7, deep: {yes: true, no: null, text: "3"}}
    agent: {on_start: [sh, -c, make], on_claim: [true-ish], runner: [./run.sh], heartbeat_timeout: 2m}
    keep_failures: {maximum: 3, ttl: 2h}
    reuse: true
    max_uses: 7
    claims: {lease: 8h, maximum: 20, maximum_per_user: 4}
    presets:
      - name: scheduled
        parameters: {cpu: 2, spot: true, text: "08", odd: "a: b"}
        prebuilds:
          instances: 5
          ttl: 8h
          ttl_jitter: 20%
          min_remaining: 30m
          priority: -3
          creates_in_flight: 2
          schedule: {timezone: Europe/Berlin, ranges: [{cron: "* 8-18 * * 1-5", instances: 9}]}
          standby: {running: 25%}
      - {name: sized, prebuilds: {instances: 2, autosize: {mode: apply, min: 0, max: 9, target: 99.9%, timezone: Europe/Berlin}}}
      - {name: cold}
`

// A resize changes the instances of one preset and nothing else, whatever the template says.
func TestResized(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.NewProvider = func(string, json.RawMessage) (provider.Provider, error) { return capable{}, nil }
	b.apply(t, everything)
	require.Empty(t, b.resized(t, "full", "scheduled", 5))
	require.Equal(t, []string{"update preset full/scheduled instances: 5 -> 8"}, b.resized(t, "full", "scheduled", 8))
	require.Equal(t, []string{"update preset full/sized instances: 2 -> 0"}, b.resized(t, "full", "sized", 0))

	for _, to := range [][2]string{{"full", "cold"}, {"full", "none"}, {"none", "cold"}} {
		_, err := b.Resized(context.Background(), b.by, to[0], to[1], 3)
		var refusal *auth.Refusal
		require.ErrorAs(t, err, &refusal, "%v", to)
	}
	// What a template cannot have, it cannot be resized to.
	file, err := b.Resized(context.Background(), b.by, "full", "scheduled", 21)
	require.NoError(t, err)
	_, err = b.try(file, true)
	var problems *templates.Problems
	require.ErrorAs(t, err, &problems)
	require.Contains(t, err.Error(), "quota exceeded")
}

// The same of whatever files there may be.
func TestResized_always(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	rapid.Check(t, func(rt *rapid.T) {
		_, err := b.try(document(rt), false)
		require.NoError(rt, err)
		for _, name := range []string{"a", "b", "c"} {
			for _, preset := range []string{"p", "q"} {
				file, err := b.Resized(context.Background(), b.by, name, preset, 4)
				var refusal *auth.Refusal
				if errors.As(err, &refusal) { // there is none, or it is no pool
					continue
				}
				require.NoError(rt, err)
				was := *b.preset(t, name, preset).Instances
				changes := b.resized(rt, name, preset, 4)
				if was == 4 {
					require.Empty(rt, changes, file)
				} else {
					require.Len(rt, changes, 1, file)
				}
			}
		}
	})
}

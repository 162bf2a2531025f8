package promql_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/storage"
	"github.com/stretchr/testify/require"
)

// sample is a case of rules_test.yml: series as promtool's tests write them, one value per minute.
type sample struct {
	Name   string
	Series []struct{ Series, Values string }
	Alerts []struct {
		Alert  string
		Raised string // after how long it is first raised; empty: never
	}
}

const step = time.Minute

// TestAlerts evaluates every rule each minute over the samples of each case. Every alert has a case that raises it and one
// that does not although there are samples.
func TestAlerts(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(deploy + "prometheus/rules_test.yml")
	require.NoError(t, err)
	var cases []sample
	require.NoError(t, yaml.Unmarshal(raw, &cases))
	rules := map[string]rulefmt.Rule{}
	for _, r := range readRules(t) {
		rules[r.Alert] = r
	}
	raised, quiet := map[string]bool{}, map[string]bool{}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			load := "load 1m\n"
			for _, s := range c.Series {
				load += "  " + s.Series + " " + s.Values + "\n"
			}
			store := promqltest.LoadedStorage(t, load)
			defer store.Close()
			for _, a := range c.Alerts {
				rule, ok := rules[a.Alert]
				require.True(t, ok, "no alert %s", a.Alert)
				got, ok := firstRaised(t, store, rule)
				if a.Raised == "" {
					require.False(t, ok, "%s is raised after %s", a.Alert, got)
					quiet[a.Alert] = true
					continue
				}
				want, err := time.ParseDuration(a.Raised)
				require.NoError(t, err)
				require.True(t, ok, "%s is not raised", a.Alert)
				require.Equal(t, want, got, a.Alert)
				raised[a.Alert] = true
			}
		})
	}
	for name := range rules {
		require.True(t, raised[name], "no case raises %s", name)
		require.True(t, quiet[name], "no case leaves %s alone", name)
	}
}

// firstRaised is when some series of the rule has held for as long as the rule asks for.
func firstRaised(t *testing.T, store storage.Queryable, rule rulefmt.Rule) (time.Duration, bool) {
	t.Helper()
	engine := promqltest.NewTestEngine(t, false, 5*time.Minute, 1_000_000)
	since := map[string]time.Duration{}
	for at := time.Duration(0); at <= 26*time.Hour; at += step {
		query, err := engine.NewInstantQuery(context.Background(), store, nil, rule.Expr, time.Unix(0, 0).Add(at))
		require.NoError(t, err)
		result := query.Exec(context.Background())
		require.NoError(t, result.Err)
		vector, err := result.Vector()
		require.NoError(t, err)
		now := map[string]time.Duration{}
		for _, s := range vector {
			key := s.Metric.String()
			now[key] = at
			if began, ok := since[key]; ok {
				now[key] = began
			}
			if at-now[key] >= time.Duration(rule.For) {
				query.Close()
				return at, true
			}
		}
		query.Close()
		since = now
	}
	return 0, false
}

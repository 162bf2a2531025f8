package promql_test

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const deploy = "../../deploy/"

var row = regexp.MustCompile("(?m)^\\| `(prewarm_\\w+)` \\| (\\w+) \\| ([^|]*) \\|")

// series are the labels by series, as docs/observability.md has them: a test of the server holds that page against what it
// exports.
func series(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/observability.md")
	require.NoError(t, err)
	all := map[string][]string{"up": {"job", "instance"}}
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		has := []string{"job", "instance"}
		if l := strings.TrimSpace(m[3]); l != "" {
			has = append(has, strings.Split(l, ", ")...)
		}
		if m[2] != "histogram" {
			all[m[1]] = has
			continue
		}
		all[m[1]+"_bucket"] = append(slices.Clone(has), "le")
		all[m[1]+"_sum"], all[m[1]+"_count"] = has, has
	}
	require.Greater(t, len(all), 30)
	return all
}

// check parses a query and looks at each of its selectors and groupings.
func check(t *testing.T, known map[string][]string, what, query string) {
	t.Helper()
	expr, err := parser.ParseExpr(query)
	if !assert.NoError(t, err, what) {
		return
	}
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		switch n := node.(type) {
		case *parser.VectorSelector:
			has, ok := known[n.Name]
			assert.True(t, ok, "%s: no metric %s", what, n.Name)
			for _, m := range n.LabelMatchers {
				assert.True(t, m.Name == labels.MetricName || slices.Contains(has, m.Name), "%s: %s has no label %s", what,
					n.Name, m.Name)
			}
		case *parser.AggregateExpr:
			var has []string
			for _, s := range parser.ExtractSelectors(n.Expr) {
				for _, m := range s {
					if m.Name == labels.MetricName {
						has = append(has, known[m.Value]...)
					}
				}
			}
			for _, l := range n.Grouping {
				assert.Contains(t, has, l, what)
			}
		}
		return nil
	})
}

func readRules(t *testing.T) []rulefmt.Rule {
	t.Helper()
	raw, err := os.ReadFile(deploy + "prometheus/rules.yml")
	require.NoError(t, err)
	groups, errs := rulefmt.Parse(raw, false, model.LegacyValidation)
	require.Empty(t, errs)
	var all []rulefmt.Rule
	for _, g := range groups.Groups {
		all = append(all, g.Rules...)
	}
	require.NotEmpty(t, all)
	return all
}

func TestRules(t *testing.T) {
	t.Parallel()
	known := series(t)
	for _, r := range readRules(t) {
		check(t, known, r.Alert, r.Expr)
	}
}

func TestDashboard(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(deploy + "grafana/prewarm.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &board))
	known := series(t)
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			query := strings.ReplaceAll(target.Expr, "$__rate_interval", "5m")
			check(t, known, p.Title, query)
		}
	}
}

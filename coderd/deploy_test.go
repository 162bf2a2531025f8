package coderd

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What Prometheus adds to every series, and what is its own.
var scraped = []string{"job", "instance"}

var (
	metricName = regexp.MustCompile(`\b(?:prewarm_\w+|up)\b`)
	selector   = regexp.MustCompile(`\b(prewarm_\w+|up)\s*\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)\s*"`)
	grouping   = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)`)
	ofLabel    = regexp.MustCompile(`label_values\(.*,\s*(\w+)\)`)
	shown      = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}`)
)

// wrongWith says what a query, and what is shown of its labels, supposes that no server exports. scripts/promql reads
// the same with Prometheus' own parser; this needs none.
func wrongWith(metrics map[string]metric, query string, texts ...string) []string {
	var wrong []string
	all := slices.Clone(scraped)
	labelsOf := func(name string) []string {
		if name == "up" {
			return scraped
		}
		if m, ok := metrics[name]; ok && m.kind != "histogram" {
			return append(slices.Clone(scraped), m.labels...)
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && metrics[base].kind == "histogram" {
				labels := append(slices.Clone(scraped), metrics[base].labels...)
				if suffix == "_bucket" {
					labels = append(labels, "le")
				}
				return labels
			}
		}
		wrong = append(wrong, "no metric "+name)
		return nil
	}
	names := metricName.FindAllString(query, -1)
	if len(names) == 0 {
		wrong = append(wrong, "no metric of ours in "+query)
	}
	for _, name := range names {
		all = append(all, labelsOf(name)...)
	}
	for _, s := range selector.FindAllStringSubmatch(query, -1) {
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			if !slices.Contains(labelsOf(s[1]), m[1]) {
				wrong = append(wrong, s[1]+" has no label "+m[1])
			}
		}
	}
	var used []string
	for _, g := range grouping.FindAllStringSubmatch(query, -1) {
		for l := range strings.SplitSeq(g[1], ",") {
			used = append(used, strings.TrimSpace(l))
		}
	}
	for _, l := range ofLabel.FindAllStringSubmatch(query, -1) {
		used = append(used, l[1])
	}
	for _, text := range texts {
		for _, l := range shown.FindAllStringSubmatch(text, -1) {
			used = append(used, l[1])
		}
	}
	for _, l := range used {
		if !slices.Contains(all, l) {
			wrong = append(wrong, "nothing here has a label "+l)
		}
	}
	return wrong
}

func byName(t *testing.T) map[string]metric {
	t.Helper()
	metrics := map[string]metric{}
	for _, m := range exported(t) {
		metrics[m.name] = m
	}
	return metrics
}

// TestDeploy: the dashboard and the alerts ask for metrics and labels that a server exports, and for no others.
func TestDeploy(t *testing.T) {
	t.Parallel()
	metrics := byName(t)

	raw, err := os.ReadFile("../deploy/prometheus/rules.yml")
	require.NoError(t, err)
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	require.NoError(t, yaml.Unmarshal(raw, &rules))
	alerts := 0
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			alerts++
			assert.Empty(t, wrongWith(metrics, r.Expr, r.Annotations["summary"], r.Annotations["action"]), r.Alert)
			assert.NotEmpty(t, r.Annotations["summary"], r.Alert)
			assert.NotEmpty(t, r.Annotations["action"], r.Alert)
		}
	}
	require.GreaterOrEqual(t, alerts, 10)

	raw, err = os.ReadFile("../deploy/grafana/prewarm.json")
	require.NoError(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
	}
	require.NoError(t, json.Unmarshal(raw, &board))
	require.GreaterOrEqual(t, len(board.Panels), 10)
	for _, p := range board.Panels {
		require.NotEmpty(t, p.Targets, p.Title)
		for _, target := range p.Targets {
			assert.Empty(t, wrongWith(metrics, target.Expr, target.LegendFormat), p.Title)
		}
	}
	for _, v := range board.Templating.List {
		if v.Type == "query" {
			assert.Empty(t, wrongWith(metrics, v.Query), v.Name)
		}
	}
}

// Each line supposes something that no server exports, or nothing that is wrong.
func TestDeploy_isCaught(t *testing.T) {
	t.Parallel()
	metrics := byName(t)
	for query, want := range map[string][]string{
		`max(prewarm_pass_stalenes_seconds)`:                 {"no metric prewarm_pass_stalenes_seconds"},
		`sum(rate(prewarm_claims_total{result="hit"}[5m]))`:  {"prewarm_claims_total has no label result"},
		`sum by (provider) (rate(prewarm_claims_total[5m]))`: {"nothing here has a label provider"},
		`rate(prewarm_claim_duration_seconds[5m])`:           {"no metric prewarm_claim_duration_seconds"},
		`rate(prewarm_claims_total_bucket[5m])`:              {"no metric prewarm_claims_total_bucket"},
		`label_values(prewarm_preset_workspaces, count_of)`:  {"nothing here has a label count_of"},
		`vector(1)`: {"no metric of ours in vector(1)"},
		`sum by (le, outcome) (rate(prewarm_claim_duration_seconds_bucket{job="x"}[5m]))`: nil,
		`up{job="prewarm"} == 0`: nil,
	} {
		assert.Equal(t, want, wrongWith(metrics, query), query)
	}
	assert.Equal(t, []string{"nothing here has a label shape"}, wrongWith(metrics, "prewarm_agents", "of {{ $labels.shape }}"))
}

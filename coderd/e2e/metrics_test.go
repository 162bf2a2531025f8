package e2e_test

import (
	"context"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

var metricRow = regexp.MustCompile("(?m)^\\| `(prewarm_\\w+)` \\| \\w+ \\| ([^|]*) \\|")

// documented are the labels by metric, as docs/observability.md has them.
func documented(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../docs/observability.md")
	require.NoError(t, err)
	all := map[string][]string{}
	for _, row := range metricRow.FindAllStringSubmatch(string(page), -1) {
		all[row[1]] = nil
		if labels := strings.TrimSpace(row[2]); labels != "" {
			all[row[1]] = strings.Split(labels, ", ")
		}
	}
	require.Greater(t, len(all), 30)
	return all
}

// scraped are the values of a running server's metrics: the sum over all series, by name.
func scraped(t *testing.T, url string) map[string]float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", nil)
	require.NoError(t, err)
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(res.Body)
	require.NoError(t, err)
	want, values := documented(t), map[string]float64{}
	for name, f := range families {
		if !strings.HasPrefix(name, "prewarm_") {
			continue
		}
		labels, known := want[name]
		require.True(t, known, "%s is not in docs/observability.md", name)
		for _, m := range f.GetMetric() {
			var got []string
			for _, l := range m.GetLabel() {
				got = append(got, l.GetName())
			}
			require.ElementsMatch(t, labels, got, name)
			values[name] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return values
}

// What a running server exports is what its page says, and what it does is counted.
func TestMetrics_ofARunningServer(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	root := t.TempDir()
	s := e2etest.Start(t, e2etest.Options{PostgresURL: dbtest.URL(t)})
	apply(ctx, t, s.Client, poolOf3, root)
	eventually(t, "pool of 3", func() bool { return preset(ctx, t, s.Client, "a").Eligible == 3 })
	claimed, err := s.Client.Claim(ctx, sdk.ClaimRequest{Template: "a", Preset: "default", Mode: "require"})
	require.NoError(t, err)
	_, err = s.Client.ReleaseWorkspace(ctx, claimed.Name)
	require.NoError(t, err)
	_, err = s.Client.Pause(ctx, sdk.PauseRequest{Scope: "provider", Target: "sim", Reason: "test"})
	require.NoError(t, err)
	var got map[string]float64
	eventually(t, "all of it is counted", func() bool {
		got = scraped(t, s.URL)
		return got["prewarm_paused"] == 1 && got["prewarm_provider_calls_total"] > 0 && got["prewarm_preset_workspaces"] > 0
	})
	require.EqualValues(t, 1, got["prewarm_claims_total"])
	require.EqualValues(t, 1, got["prewarm_claim_duration_seconds"])
	require.EqualValues(t, 1, got["prewarm_workspaces_finished_total"])
	require.GreaterOrEqual(t, got["prewarm_prebuilds_planned_total"], 3.0)
	for _, name := range []string{
		"prewarm_pass_staleness_seconds", "prewarm_pass_stale", "prewarm_preset_to_create", "prewarm_preset_to_delete",
		"prewarm_preset_hard_limit", "prewarm_pass_lock_wait_seconds", "prewarm_job_queue_seconds", "prewarm_passes_total",
		"prewarm_pass_duration_seconds", "prewarm_provider_call_duration_seconds",
	} {
		require.Contains(t, got, name)
	}
	require.True(t, slices.Contains(documented(t)["prewarm_passes_total"], "outcome"))
}

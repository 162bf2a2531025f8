package coderd

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

var update = flag.Bool("update", false, "write what is generated instead of comparing with it")

// metric is one that a server exports, or will once there is something to say.
type metric struct {
	name, kind, help string
	labels           []string
}

// described is what prometheus.Desc prints.
var described = regexp.MustCompile(`fqName: "([^"]+)", help: "((?:[^"\\]|\\.)*)", unit: "[^"]*", constLabels: \{\}, variableLabels: \{([^}]*)\}`)

// exported are all metrics of a replica as it is really wired.
func exported(t *testing.T) []metric {
	t.Helper()
	store := dbtest.OpenURL(t, dbtest.URL(t), database.Options{})
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	r, err := newServer(context.Background(), Options{
		DataDir: t.TempDir(), Replica: "a", Tick: 15 * time.Second, Stdout: io.Discard, Stderr: io.Discard,
	}, &db{store: store}, listener, quartz.NewReal(), slog.Make())
	require.NoError(t, err)
	t.Cleanup(r.pubsub.Close)

	var all []metric
	for _, c := range r.registry.registered {
		descs := make(chan *prometheus.Desc, 64)
		c.Describe(descs)
		close(descs)
		for d := range descs {
			found := described.FindStringSubmatch(d.String())
			require.NotNil(t, found, d.String())
			m := metric{name: found[1], kind: kindOf(c, found[1]), help: strings.ReplaceAll(found[2], `\"`, `"`)}
			for l := range strings.SplitSeq(found[3], ",") {
				if l != "" {
					m.labels = append(m.labels, l)
				}
			}
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b metric) int { return strings.Compare(a.name, b.name) })
	return all
}

func kindOf(c prometheus.Collector, name string) string {
	switch c.(type) {
	case *prometheus.HistogramVec, prometheus.Histogram:
		return "histogram"
	case *prometheus.CounterVec:
		return "counter"
	}
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}

const (
	metricsPage = "../docs/observability.md"
	metricsMark = "<!-- metrics: made by `go test ./coderd -run TestMetrics_page -update` -->\n"
)

// TestMetrics_page: docs/observability.md ends with a table of all metrics there are, and no other.
func TestMetrics_page(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(metricsPage)
	require.NoError(t, err)
	head, got, found := strings.Cut(string(page), metricsMark)
	require.True(t, found)
	var want strings.Builder
	want.WriteString("\n| metric | type | labels | what it says |\n| --- | --- | --- | --- |\n")
	for _, m := range exported(t) {
		require.Regexp(t, `^prewarm_[a-z_]+$`, m.name)
		require.Equal(t, m.kind == "counter", strings.HasSuffix(m.name, "_total"), "%s is a %s", m.name, m.kind)
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", m.name, m.kind, strings.Join(m.labels, ", "), m.help)
	}
	if *update {
		require.NoError(t, os.WriteFile(metricsPage, []byte(head+metricsMark+want.String()), 0o644))
		return
	}
	require.Equal(t, want.String(), got)
}

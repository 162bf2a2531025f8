package coderd

import (
	"context"
	"time"

	"cdr.dev/slog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/database"
)

// scrapeTimeout bounds what a scrape may ask of the database.
const scrapeTimeout = 5 * time.Second

// poolCollector reads the counts of rule C3 when it is scraped. Every replica tells the same: take the maximum.
type poolCollector struct {
	store *database.Store
	log   slog.Logger
	count *prometheus.Desc
	last  *prometheus.Desc
}

func newPoolCollector(store *database.Store, log slog.Logger) *poolCollector {
	return &poolCollector{
		store: store, log: log.Named("metrics"),
		count: prometheus.NewDesc("prewarm_preset_workspaces",
			"Workspaces of a preset by count (desired, actual, eligible, starting, ...; rule C3).",
			[]string{"organization", "template", "preset", "count"}, nil),
		last: prometheus.NewDesc("prewarm_pass_staleness_seconds",
			"Seconds since any replica began the last full pass that was committed.", nil, nil),
	}
}

func (c *poolCollector) Describe(ch chan<- *prometheus.Desc) { ch <- c.count; ch <- c.last }

func (c *poolCollector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	if last, err := c.store.LastPass(ctx); err == nil && last.FullBeganAt != nil {
		ch <- prometheus.MustNewConstMetric(c.last, prometheus.GaugeValue, last.Now.Sub(*last.FullBeganAt).Seconds())
	}
	presets, err := c.store.PresetViews(ctx, database.PresetViewsParams{OrganizationID: auth.DefaultOrganizationID})
	if err != nil {
		c.log.Warn(ctx, "count for metrics", slog.Error(err))
		return
	}
	for _, p := range presets {
		for name, n := range map[string]int32{
			"desired": p.Desired, "actual": p.Actual, "eligible": p.Eligible, "starting": p.Starting,
			"stopping": p.Stopping, "deleting": p.Deleting, "outdated": p.Outdated,
			"expired": p.Expired, "quarantined": p.Quarantined, "waiting": p.Waiting, "claimed": p.Claimed,
			"extraneous": p.Extraneous,
		} {
			ch <- prometheus.MustNewConstMetric(c.count, prometheus.GaugeValue, float64(n), p.Organization, p.Template,
				p.Preset, name)
		}
	}
}

// newDatabaseCollector tells how the connection pool fares.
func newDatabaseCollector(store *database.Store) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "prewarm_database_connections_in_use", Help: "Connections of this replica's pool that are in use.",
	}, func() float64 { return float64(store.Pool.Stat().AcquiredConns()) })
}

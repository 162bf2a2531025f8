package inventory

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/metric"
)

type metrics struct {
	inventories *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	acts        *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := metric.New(reg)
	return &metrics{
		inventories: f.Counters("prewarm_inventories_total",
			"Inventories made by this replica, by outcome (complete, incomplete: the provider did not answer, failed: the database did not).",
			"provider", "outcome"),
		seconds: f.Histograms("prewarm_inventory_duration_seconds",
			"Time that inventories took, with what was done about their findings.",
			prometheus.ExponentialBuckets(0.005, 3, 10), "provider"),
		acts: f.Counters("prewarm_inventory_acts_total",
			"What this replica did about discrepancies, by verdict and result (done, failed, lost: it had changed meanwhile).",
			"provider", "verdict", "result"),
	}
}

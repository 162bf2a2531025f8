package inventory

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	inventories *prometheus.CounterVec
	seconds     *prometheus.HistogramVec
	acts        *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		inventories: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_inventories_total",
			Help: "Inventories made by this replica, by outcome (complete, incomplete: the provider did not answer, failed: the database did not).",
		}, []string{"provider", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prewarm_inventory_duration_seconds", Help: "Time that inventories took, with what was done about their findings.",
			Buckets: prometheus.ExponentialBuckets(0.005, 3, 10),
		}, []string{"provider"}),
		acts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_inventory_acts_total",
			Help: "What this replica did about discrepancies, by verdict and result (done, failed, lost: it had changed meanwhile).",
		}, []string{"provider", "verdict", "result"}),
	}
	reg.MustRegister(m.inventories, m.seconds, m.acts)
	return m
}

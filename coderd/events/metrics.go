package events

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	streams   prometheus.Gauge
	changes   prometheus.Counter
	overflows prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		streams: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "prewarm_event_streams", Help: "Screens that are connected to this replica's event stream.",
		}),
		changes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "prewarm_event_changes_total", Help: "Changes that this replica found to tell its streams.",
		}),
		overflows: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "prewarm_event_overflows_total",
			Help: "How often a stream had more hints waiting than it may hold, and was asked to read everything.",
		}),
	}
	reg.MustRegister(m.streams, m.changes, m.overflows)
	return m
}

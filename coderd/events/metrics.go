package events

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/metric"
)

type metrics struct {
	streams   prometheus.Gauge
	changes   prometheus.Counter
	overflows prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := metric.New(reg)
	return &metrics{
		streams: f.Gauge("prewarm_event_streams", "Screens that are connected to this replica's event stream."),
		changes: f.Counter("prewarm_event_changes_total", "Changes that this replica found to tell its streams."),
		overflows: f.Counter("prewarm_event_overflows_total",
			"How often a stream had more hints waiting than it may hold, and was asked to read everything."),
	}
}

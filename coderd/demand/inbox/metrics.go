package inbox

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/metric"
)

type metrics struct {
	webhooks *prometheus.CounterVec
	handled  *prometheus.CounterVec
	missed   *prometheus.CounterVec
	match    prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := metric.New(reg)
	return &metrics{
		webhooks: f.Counters("prewarm_webhooks_total",
			"Webhooks of forges, by outcome (stored, repeated, unknown, unsigned, malformed, large, error).", "outcome"),
		handled: f.Counters("prewarm_deliveries_handled_total",
			"Deliveries of forges that were read, by outcome (job, ignored, foreign, unreadable, retried, gave up).", "outcome"),
		missed: f.Counters("prewarm_deliveries_missed_total",
			"What forges were asked for since no webhook had delivered it (delivery, job, gone).", "what"),
		match: f.Histogram("prewarm_match_duration_seconds",
			"Time to decide whose demand all queued jobs are, and to store it.", prometheus.ExponentialBuckets(0.001, 2, 14)),
	}
}

func (m *metrics) accepted(outcome string, err error) {
	switch {
	case err == nil:
	case errors.Is(err, ErrNoEntity):
		outcome = "unknown"
	case errors.Is(err, ErrSignature):
		outcome = "unsigned"
	case errors.Is(err, ErrMalformed):
		outcome = "malformed"
	case errors.Is(err, ErrTooLarge):
		outcome = "large"
	default:
		outcome = "error"
	}
	m.webhooks.WithLabelValues(outcome).Inc()
}

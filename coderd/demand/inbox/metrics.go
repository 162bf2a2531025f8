package inbox

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	webhooks *prometheus.CounterVec
	handled  *prometheus.CounterVec
	missed   *prometheus.CounterVec
	match    prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_webhooks_total",
			Help: "Webhooks of forges, by outcome (stored, repeated, unknown, unsigned, malformed, large, error).",
		}, []string{"outcome"}),
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_deliveries_handled_total",
			Help: "Deliveries of forges that were read, by outcome (job, ignored, foreign, unreadable, retried, gave up).",
		}, []string{"outcome"}),
		missed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_deliveries_missed_total",
			Help: "What forges were asked for since no webhook had delivered it (delivery, job, gone).",
		}, []string{"what"}),
		match: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "prewarm_match_duration_seconds", Help: "Time to decide whose demand all queued jobs are, and to store it.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}),
	}
	reg.MustRegister(m.webhooks, m.handled, m.missed, m.match)
	return m
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

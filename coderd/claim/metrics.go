package claim

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	claims  *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	waiting prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		claims: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_claims_total", Help: "Claims answered, by outcome (hit, waited, miss, error).",
		}, []string{"outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prewarm_claim_duration_seconds", Help: "Time to answer a claim, waiting included, by outcome.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18),
		}, []string{"outcome"}),
	}
	m.waiting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "prewarm_claims_waiting", Help: "Claims that wait on this replica.",
	})
	reg.MustRegister(m.claims, m.seconds, m.waiting)
	return m
}

func (m *metrics) observe(res Result, took time.Duration, err error) {
	outcome := string(res.Outcome)
	if err != nil {
		outcome = "error"
	}
	m.claims.WithLabelValues(outcome).Inc()
	m.seconds.WithLabelValues(outcome).Observe(took.Seconds())
}

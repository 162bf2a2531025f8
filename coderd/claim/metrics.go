package claim

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	claims  *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	waiting prometheus.Gauge
	tiers   *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		claims: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_claims_total", Help: "Claims answered, by outcome (hit, waited, miss, gone, error).",
		}, []string{"organization", "template", "preset", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prewarm_claim_duration_seconds", Help: "Time to answer a claim, waiting included, by outcome.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 18),
		}, []string{"outcome"}),
	}
	m.waiting = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "prewarm_claims_waiting", Help: "Claims that wait on this replica.",
	})
	m.tiers = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "prewarm_claims_by_tier_total", Help: "Claims that were given a prebuild, by the tier it was in (running, standby).",
	}, []string{"organization", "template", "preset", "tier"})
	reg.MustRegister(m.claims, m.seconds, m.waiting, m.tiers)
	return m
}

// observe counts one answered request.
func (m *metrics) observe(req Request, res Result, took time.Duration, err error) {
	outcome := string(res.Outcome)
	switch {
	case errors.Is(err, context.Canceled): // the client went away
		outcome = "gone"
	case err != nil:
		outcome = "error"
	}
	m.claims.WithLabelValues(req.Names.Organization, req.Names.Template, req.Names.Preset, outcome).Inc()
	m.seconds.WithLabelValues(outcome).Observe(took.Seconds())
	if err == nil && res.Workspace != nil {
		tier := "running"
		if res.Standby {
			tier = "standby"
		}
		m.tiers.WithLabelValues(req.Names.Organization, req.Names.Template, req.Names.Preset, tier).Inc()
	}
}

package claim

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/metric"
)

type metrics struct {
	claims  *prometheus.CounterVec
	seconds *prometheus.HistogramVec
	waiting prometheus.Gauge
	tiers   *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := metric.New(reg)
	return &metrics{
		claims: f.Counters("prewarm_claims_total",
			"Claims answered, by outcome (hit, waited, miss, gone, error).", "organization", "template", "preset", "outcome"),
		seconds: f.Histograms("prewarm_claim_duration_seconds",
			"Time to answer a claim, waiting included, by outcome.", prometheus.ExponentialBuckets(0.0005, 2, 18), "outcome"),
		waiting: f.Gauge("prewarm_claims_waiting", "Claims that wait on this replica."),
		tiers: f.Counters("prewarm_claims_by_tier_total",
			"Claims that were given a prebuild, by the tier it was in (running, standby).", "organization", "template", "preset", "tier"),
	}
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

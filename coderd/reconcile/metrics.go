package reconcile

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	passes   *prometheus.CounterVec   // by trigger (tick, nudge) and outcome (done, busy, elsewhere, error)
	duration *prometheus.HistogramVec // by scope (full, templates)
	reruns   prometheus.Counter
	created  prometheus.Counter
	intents  prometheus.Counter
	errors   prometheus.Counter
	frozen   prometheus.Counter
	last     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_passes_total", Help: "Passes tried, by trigger and outcome.",
		}, []string{"trigger", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prewarm_pass_duration_seconds", Help: "Time from begin to commit of passes that were done.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"scope"}),
		reruns: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "prewarm_pass_reruns_total", Help: "Reruns because another pass had committed.",
		}),
		created: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "prewarm_prebuilds_planned_total", Help: "Workspaces that passes of this replica created.",
		}),
		intents: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "prewarm_intents_total", Help: "Drains and cancels that passes of this replica decided.",
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "prewarm_pass_preset_errors_total", Help: "Presets that a pass could not reconcile.",
		}),
		frozen: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "prewarm_pass_holders_ended_total", Help: "Backends ended because they held the pass's lock for too long.",
		}),
		last: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "prewarm_pass_last_timestamp_seconds", Help: "When this replica last committed a pass.",
		}),
	}
	reg.MustRegister(m.passes, m.duration, m.reruns, m.created, m.intents, m.errors, m.frozen, m.last)
	return m
}

func (m *metrics) observe(trigger string, res Result, took time.Duration, err error) {
	m.reruns.Add(float64(res.Reruns))
	switch {
	case errors.Is(err, errBusy):
		m.passes.WithLabelValues(trigger, "busy").Inc()
		return
	case err != nil:
		m.passes.WithLabelValues(trigger, "error").Inc()
		return
	}
	scope := "templates"
	if res.Full {
		scope = "full"
	}
	m.passes.WithLabelValues(trigger, "done").Inc()
	m.duration.WithLabelValues(scope).Observe(took.Seconds())
	m.created.Add(float64(res.Created))
	m.intents.Add(float64(res.Intents))
	m.errors.Add(float64(len(res.Errors)))
	m.last.Set(float64(res.BeganAt.UnixMilli()) / 1000)
}

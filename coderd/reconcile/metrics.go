package reconcile

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/metric"
)

type metrics struct {
	passes   *prometheus.CounterVec   // by trigger (tick, nudge) and outcome (done, busy, rerun, elsewhere, error)
	duration *prometheus.HistogramVec // by scope (full, templates)
	lockWait *prometheus.HistogramVec // by trigger
	created  prometheus.Counter
	intents  prometheus.Counter
	errors   prometheus.Counter
	frozen   prometheus.Counter
	last     prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := metric.New(reg)
	return &metrics{
		passes: f.Counters("prewarm_passes_total",
			"Passes tried, by trigger (tick, nudge) and outcome (done, busy: the lock was held, rerun: another pass had "+
				"committed, elsewhere: another replica did it, error).",
			"trigger", "outcome"),
		duration: f.Histograms("prewarm_pass_duration_seconds",
			"Time from begin to commit of passes that were done.", prometheus.ExponentialBuckets(0.001, 2, 15), "scope"),
		lockWait: f.Histograms("prewarm_pass_lock_wait_seconds",
			"Time from the first try of a pass to having the lock, by trigger; 0 where the lock was free.",
			prometheus.ExponentialBuckets(0.005, 2, 12), "trigger"),
		created: f.Counter("prewarm_prebuilds_planned_total", "Workspaces that passes of this replica created."),
		intents: f.Counter("prewarm_intents_total", "Drains and cancels that passes of this replica decided."),
		errors:  f.Counter("prewarm_pass_preset_errors_total", "Presets that a pass could not reconcile."),
		frozen: f.Counter("prewarm_pass_holders_ended_total",
			"Backends ended because they held the pass's lock for too long."),
		last: f.Gauge("prewarm_pass_last_timestamp_seconds", "When this replica last committed a pass."),
	}
}

// observeLock notes how long a trigger had to wait for the lock, once it has it.
func (r *Reconciler) observeLock(trigger string, start time.Time, err error) {
	since, refused := r.refusedAt[trigger]
	switch {
	case errors.Is(err, errBusy) && !refused:
		r.refusedAt[trigger] = start
	case err == nil && refused:
		delete(r.refusedAt, trigger)
		r.metrics.lockWait.WithLabelValues(trigger).Observe(start.Sub(since).Seconds())
	case err == nil:
		r.metrics.lockWait.WithLabelValues(trigger).Observe(0)
	}
}

func (m *metrics) observe(trigger string, res Result, took time.Duration, err error) {
	m.passes.WithLabelValues(trigger, "rerun").Add(float64(res.Reruns))
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

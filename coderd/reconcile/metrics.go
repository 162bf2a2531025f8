package reconcile

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
	m := &metrics{
		passes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_passes_total", Help: "Passes tried, by trigger (tick, nudge) and outcome (done, busy: the lock was held, rerun: another pass had " +
				"committed, elsewhere: another replica did it, error).",
		}, []string{"trigger", "outcome"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prewarm_pass_duration_seconds", Help: "Time from begin to commit of passes that were done.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 15),
		}, []string{"scope"}),
		lockWait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "prewarm_pass_lock_wait_seconds",
			Help:    "Time from the first try of a pass to having the lock, by trigger; 0 where the lock was free.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 12),
		}, []string{"trigger"}),
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
	reg.MustRegister(m.passes, m.duration, m.lockWait, m.created, m.intents, m.errors, m.frozen, m.last)
	return m
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

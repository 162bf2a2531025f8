// Package metric makes the Prometheus metrics of a room and registers them. A metric is a name, what it says, and its labels.
package metric

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Factory makes metrics of one registry.
type Factory struct{ auto promauto.Factory }

// New makes a Factory; where reg is nil nothing is registered.
func New(reg prometheus.Registerer) Factory { return Factory{promauto.With(reg)} }

// Counter makes a counter without labels.
func (f Factory) Counter(name, help string) prometheus.Counter {
	return f.auto.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
}

// Counters makes a counter for each combination of labels.
func (f Factory) Counters(name, help string, labels ...string) *prometheus.CounterVec {
	return f.auto.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// Gauge makes a gauge without labels.
func (f Factory) Gauge(name, help string) prometheus.Gauge {
	return f.auto.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// Gauges makes a gauge for each combination of labels.
func (f Factory) Gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	return f.auto.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

// Reading makes a gauge that is read when it is asked for.
func (f Factory) Reading(name, help string, read func() float64) {
	f.auto.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
}

// Histogram makes a histogram without labels. The buckets are in the unit of its name.
func (f Factory) Histogram(name, help string, buckets []float64) prometheus.Histogram {
	return f.auto.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// Histograms makes a histogram for each combination of labels.
func (f Factory) Histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return f.auto.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

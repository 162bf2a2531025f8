package runners

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/metric"
)

type metrics struct {
	handed  *prometheus.CounterVec
	rounds  *prometheus.CounterVec
	settled *prometheus.CounterVec
	vetoes  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := metric.New(reg)
	m := &metrics{
		handed: f.Counters("prewarm_runner_configurations_total",
			"Configurations that workspaces asked for, by outcome: handed out, refused, failed at the forge.", "result"),
		rounds: f.Counters("prewarm_forge_rounds_total",
			"Rounds in which a forge was asked for an entity's runners and jobs, by result: done, failed, limited.", "result"),
		settled: f.Counters("prewarm_runners_settled_total",
			"Workspaces of runners that jobs or the forge's word moved, by what was done: claimed, released, drained.", "done"),
		vetoes: f.Counter("prewarm_runner_vetoes_total",
			"Times that a runner was not unregistered because of a job."),
	}
	for counter, values := range map[*prometheus.CounterVec][]string{
		m.handed: {"handed out", "refused", "failed"}, m.rounds: {"done", "failed", "limited"},
		m.settled: {"claimed", "released", "drained"},
	} {
		for _, value := range values {
			counter.WithLabelValues(value)
		}
	}
	return m
}

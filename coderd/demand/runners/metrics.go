package runners

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	handed  *prometheus.CounterVec
	rounds  *prometheus.CounterVec
	settled *prometheus.CounterVec
	vetoes  prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		handed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_runner_configurations_total",
			Help: "Configurations that workspaces asked for, by outcome: handed out, refused, failed at the forge.",
		}, []string{"result"}),
		rounds: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_forge_rounds_total",
			Help: "Rounds in which a forge was asked for an entity's runners and jobs, by result: done, failed, limited.",
		}, []string{"result"}),
		settled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_runners_settled_total",
			Help: "Workspaces of runners that jobs or the forge's word moved, by what was done: claimed, released, drained.",
		}, []string{"done"}),
		vetoes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "prewarm_runner_vetoes_total",
			Help: "Times that a runner was not unregistered because of a job.",
		}),
	}
	reg.MustRegister(m.handed, m.rounds, m.settled, m.vetoes)
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

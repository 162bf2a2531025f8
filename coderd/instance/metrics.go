package instance

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/database/instancedb"
)

type metrics struct {
	reports       *prometheus.CounterVec
	claimFailures prometheus.Counter
	alarms        prometheus.Counter
	recoveries    prometheus.Counter
	agents        prometheus.Gauge
	silent        *prometheus.GaugeVec
	deaf          prometheus.Gauge
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		reports: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_agent_reports_total", Help: "Reports that agents made to this replica, by status.",
		}, []string{"status"}),
		claimFailures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "prewarm_agent_claim_failures_total", Help: "Claims whose on_claim failed, as reported to this replica.",
		}),
		alarms: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "prewarm_agent_silent_claimed_total", Help: "Claimed workspaces whose agent fell silent, noticed here.",
		}),
		recoveries: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "prewarm_agent_silent_ready_total", Help: "Ready workspaces taken back since their agent fell silent.",
		}),
		agents: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "prewarm_agents", Help: "Agents of ready and claimed workspaces. Every replica tells the same.",
		}),
		silent: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "prewarm_agents_silent", Help: "Agents not heard of in time, by the state of their workspace.",
		}, []string{"state"}),
		deaf: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "prewarm_agents_unheard", Help: "1 while most agents are silent, so that nothing is decided by silence.",
		}),
	}
	reg.MustRegister(m.reports, m.claimFailures, m.alarms, m.recoveries, m.agents, m.silent, m.deaf)
	return m
}

func (m *metrics) observe(p instancedb.AgentPulseRow, deaf bool) {
	m.agents.Set(float64(p.Agents))
	m.silent.WithLabelValues("ready").Set(float64(p.SilentReady))
	m.silent.WithLabelValues("claimed").Set(float64(p.SilentClaimed))
	m.deaf.Set(0)
	if deaf {
		m.deaf.Set(1)
	}
}

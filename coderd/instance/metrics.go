package instance

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/metric"
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
	f := metric.New(reg)
	return &metrics{
		reports: f.Counters("prewarm_agent_reports_total",
			"Reports that agents made to this replica, by status.", "status"),
		claimFailures: f.Counter("prewarm_agent_claim_failures_total",
			"Claims whose on_claim failed, as reported to this replica."),
		alarms: f.Counter("prewarm_agent_silent_claimed_total",
			"Claimed workspaces whose agent fell silent, noticed here."),
		recoveries: f.Counter("prewarm_agent_silent_ready_total",
			"Ready workspaces taken back since their agent fell silent."),
		agents: f.Gauge("prewarm_agents",
			"Agents of ready and claimed workspaces. Every replica tells the same."),
		silent: f.Gauges("prewarm_agents_silent",
			"Agents not heard of in time, by the state of their workspace.", "state"),
		deaf: f.Gauge("prewarm_agents_unheard",
			"1 while most agents are silent, so that nothing is decided by silence."),
	}
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

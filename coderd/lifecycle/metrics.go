package lifecycle

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/metric"
)

type metrics struct {
	jobs     *prometheus.HistogramVec
	retries  *prometheus.CounterVec
	failures *prometheus.CounterVec
	resets   *prometheus.CounterVec
	boot     prometheus.Histogram
	queue    *prometheus.HistogramVec
	timeouts *prometheus.CounterVec
	stops    *prometheus.CounterVec

	claimStarts *prometheus.CounterVec
	claimStart  prometheus.Histogram

	handovers *prometheus.CounterVec
	handover  prometheus.Histogram
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := metric.New(reg)
	return &metrics{
		jobs: f.Histograms("prewarm_job_duration_seconds",
			"Time a leased job took on this replica, by kind.", prometheus.ExponentialBuckets(0.002, 2.5, 12), "kind"),
		retries: f.Counters("prewarm_job_retries_total",
			"Jobs put back after an error, by kind and provider.", "kind", "provider"),
		failures: f.Counters("prewarm_workspace_failures_total",
			"Workspaces given up, by the job that failed and provider.", "kind", "provider"),
		resets: f.Counters("prewarm_workspace_resets_total",
			"Released workspaces that were reset, by outcome.", "outcome"),
		boot: f.Histogram("prewarm_boot_duration_seconds",
			"Time from created to ready.", prometheus.ExponentialBuckets(0.05, 2, 16)),
		queue: f.Histograms("prewarm_job_queue_seconds",
			"Age of jobs when they were first leased, by kind.", prometheus.ExponentialBuckets(0.005, 2.5, 13), "kind"),
		timeouts: f.Counters("prewarm_registration_timeouts_total",
			"Workspaces given up since they were not ready, or their agent had not reported, within the boot timeout. Also runners not seen at their forge within the registration timeout.",
			"provider"),
		stops: f.Counters("prewarm_standby_stops_total",
			"Prebuilds stopped for the standby tier, by provider.", "provider"),
		claimStarts: f.Counters("prewarm_standby_claim_starts_total",
			"Workspaces claimed out of standby that were started for their claim, by outcome (started, failed).", "outcome"),
		claimStart: f.Histogram("prewarm_standby_claim_start_seconds",
			"Time from a claim out of standby until its workspace can be used.", prometheus.ExponentialBuckets(0.05, 2, 14)),
		handovers: f.Counters("prewarm_handovers_total",
			"Claimed workspaces that were to be applied for their owner, by outcome (done, failed).", "outcome"),
		handover: f.Histogram("prewarm_handover_seconds",
			"Time from a claim until its workspace was applied for its owner.", prometheus.ExponentialBuckets(0.25, 2, 14)),
	}
}

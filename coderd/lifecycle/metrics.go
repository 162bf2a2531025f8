package lifecycle

import "github.com/prometheus/client_golang/prometheus"

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
}

func newMetrics(reg prometheus.Registerer) *metrics {
	m := &metrics{
		jobs: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prewarm_job_duration_seconds", Help: "Time a leased job took on this replica, by kind.",
			Buckets: prometheus.ExponentialBuckets(0.002, 2.5, 12),
		}, []string{"kind"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_job_retries_total", Help: "Jobs put back after an error, by kind and provider.",
		}, []string{"kind", "provider"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_workspace_failures_total", Help: "Workspaces given up, by the job that failed and provider.",
		}, []string{"kind", "provider"}),
		resets: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_workspace_resets_total", Help: "Released workspaces that were reset, by outcome.",
		}, []string{"outcome"}),
		boot: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "prewarm_boot_duration_seconds", Help: "Time from created to ready.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2, 16),
		}),
		queue: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prewarm_job_queue_seconds", Help: "Age of jobs when they were first leased, by kind.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2.5, 13),
		}, []string{"kind"}),
		timeouts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prewarm_registration_timeouts_total",
			Help: "Workspaces given up since they were not ready, or their agent had not reported, within the boot timeout. Also runners not seen at their forge within the registration timeout.",
		}, []string{"provider"}),
	}
	m.stops = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "prewarm_standby_stops_total", Help: "Prebuilds stopped for the standby tier, by provider.",
	}, []string{"provider"})
	m.claimStarts = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "prewarm_standby_claim_starts_total",
		Help: "Workspaces claimed out of standby that were started for their claim, by outcome (started, failed).",
	}, []string{"outcome"})
	m.claimStart = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "prewarm_standby_claim_start_seconds", Help: "Time from a claim out of standby until its workspace can be used.",
		Buckets: prometheus.ExponentialBuckets(0.05, 2, 14),
	})
	reg.MustRegister(m.jobs, m.retries, m.failures, m.resets, m.boot, m.queue, m.timeouts, m.stops, m.claimStarts, m.claimStart)
	return m
}

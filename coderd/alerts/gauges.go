package alerts

import (
	"context"

	"cdr.dev/slog"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/database"
)

// Collector exports what a Reader reads.
type Collector struct {
	reader *Reader
	log    slog.Logger
	errors prometheus.Counter
}

var presetLabels = []string{"organization", "template", "preset"}

var (
	descWorkspaces = gauge("prewarm_preset_workspaces",
		"Workspaces of a preset by count (C3: desired, actual, eligible, starting, …), as its last pass saw them. "+
			"Waiting and queued are the claims and jobs that want one.",
		append(presetLabels[:3:3], "count")...)
	descToCreate = gauge("prewarm_preset_to_create",
		"Workspaces that the last pass over the preset created.", presetLabels...)
	descToDelete = gauge("prewarm_preset_to_delete",
		"Workspaces that the last pass over the preset wanted gone.", presetLabels...)
	descStreak = gauge("prewarm_preset_failure_streak",
		"Failed creates in a row of the preset's active version (C8).", presetLabels...)
	descHardLimit = gauge("prewarm_preset_hard_limit",
		"1 while creation of the preset is stopped after repeated failures (C8).", presetLabels...)
	descError = gauge("prewarm_preset_error",
		"1 while the last pass could not reconcile the preset.", presetLabels...)
	descPaused = gauge("prewarm_paused",
		"1 for each scope that is paused (C10).", "scope", "organization", "target")
	descJobs = gauge("prewarm_jobs",
		"Jobs that are not over, by state (pending, running).", "kind", "provider", "state")
	descOverdue = gauge("prewarm_jobs_overdue_seconds",
		"For how long the job that has waited longest has been due.", "kind", "provider")
	descBreaker = gauge("prewarm_breaker_open",
		"1 while the breaker of a provider is open: nothing is created or deleted there.", "provider", "site")
	descInventoryAge = gauge("prewarm_inventory_age_seconds",
		"Seconds since the last complete inventory of a provider began.", "provider", "site")
	descFindings = gauge("prewarm_inventory_discrepancies",
		"What the last complete inventory found amiss, by verdict.", "provider", "site", "verdict")
	descMissing = gauge("prewarm_claimed_missing",
		"Claimed workspaces of which their provider has nothing any more.")
	descRefused = gauge("prewarm_claimed_refused",
		"Claimed workspaces of a preset that their provider would not create or start now, as this replica sees it.",
		append(presetLabels[:3:3], "provider", "site")...)
	descStaleness = gauge("prewarm_pass_staleness_seconds",
		"Seconds since any replica began the last full pass that was committed.")
)

// descs are all that a Collector may send.
var descs []*prometheus.Desc

func gauge(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc(name, help, labels, nil)
	descs = append(descs, d)
	return d
}

// NewCollector returns a Collector, to be registered.
func NewCollector(reader *Reader, log slog.Logger) *Collector {
	return &Collector{reader: reader, log: log.Named("gauges"), errors: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "prewarm_gauges_errors_total",
		Help: "Scrapes of this replica whose gauges are missing, since the database did not answer.",
	})}
}

// Describe names everything that Collect may send.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range descs {
		ch <- d
	}
	c.errors.Describe(ch)
}

// Collect sends one snapshot. Without one it sends no gauges at all: none is better than old ones, and everything else is
// still exported.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	snap, err := c.reader.Read(ctx)
	if err != nil {
		c.errors.Inc()
		c.log.Warn(ctx, "read gauges", slog.Error(err))
	}
	c.errors.Collect(ch)
	if err != nil {
		return
	}
	send := func(d *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	if !snap.NoPass {
		since := c.reader.clock.Since(snap.ReadAt, "gauges", "staleness")
		send(descStaleness, (snap.Staleness + since).Seconds())
	}
	for i := range snap.Presets {
		sendPreset(send, &snap.Presets[i])
	}
	for _, j := range snap.Jobs {
		kind := string(j.Kind)
		send(descJobs, float64(j.Pending), kind, j.Provider, string(database.JobStatePending))
		send(descJobs, float64(j.Running), kind, j.Provider, string(database.JobStateRunning))
		send(descOverdue, j.OverdueS, kind, j.Provider)
	}
	for _, i := range snap.Inventories {
		send(descBreaker, flag(i.OpenedAt != nil), i.Provider, i.Site)
		if i.CompleteAt != nil {
			send(descInventoryAge, max(0, c.reader.clock.Since(*i.CompleteAt, "gauges", "inventory").Seconds()), i.Provider, i.Site)
		}
	}
	for _, f := range snap.Findings {
		send(descFindings, float64(f.Findings), f.Provider, f.Site, f.Verdict)
	}
	send(descMissing, float64(len(snap.Missing)))
	for i := range snap.Refused {
		if r := &snap.Refused[i]; !r.Unjudged {
			send(descRefused, float64(r.Claimed), r.Organization, r.Template, r.Preset, r.Provider, r.Site)
		}
	}
	sendForges(send, snap)
	for _, p := range snap.Pauses {
		send(descPaused, 1, string(p.Scope), p.Organization, p.Target)
	}
}

func sendPreset(send func(d *prometheus.Desc, value float64, labels ...string), p *Preset) {
	count := func(name string, n int) {
		send(descWorkspaces, float64(n), p.Organization, p.Template, p.Preset, name)
	}
	for name, n := range p.Counts.All {
		count(name, n)
	}
	count("claimed", p.Claimed)
	for d, value := range map[*prometheus.Desc]float64{
		descToCreate: float64(p.ToCreate), descToDelete: float64(p.ToDelete), descStreak: float64(p.FailureStreak),
		descHardLimit: flag(p.HardLimit != ""), descError: flag(p.Error),
	} {
		send(d, value, p.Organization, p.Template, p.Preset)
	}
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

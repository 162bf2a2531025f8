package coderd

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/prewarm-dev/prewarm/coderd/explain"
	"github.com/prewarm-dev/prewarm/coderd/gauges"
	"github.com/prewarm-dev/prewarm/coderd/notify"
	"github.com/prewarm-dev/prewarm/coderd/watchdog"
)

// watch exports the gauges, and has the watchdog look at them.
func (r *replica) watch(reader *gauges.Reader, reg prometheus.Registerer) {
	reg.MustRegister(gauges.NewCollector(reader, r.log))
	r.watchdog = watchdog.New(watchdog.Options{
		Clock: r.clock, Log: r.log, Registerer: reg, Tick: r.opts.Tick, Tell: newEpisodes(r.notifier).tell,
		Look: func(ctx context.Context) (watchdog.View, error) {
			snap, err := reader.Read(ctx)
			if err != nil {
				return watchdog.View{}, err
			}
			return viewOf(snap), nil
		},
	})
}

// viewOf is what the watchdog looks at: what the gauges show.
func viewOf(snap *gauges.Snapshot) watchdog.View {
	view := watchdog.View{Staleness: snap.Staleness, NoPass: snap.NoPass}
	for i := range snap.Presets {
		p := &snap.Presets[i]
		subject := watchdog.Subject{
			ID: p.ID.String(), OrganizationID: p.OrganizationID, Template: p.Template, Preset: p.Preset,
		}
		if p.HardLimit != "" {
			subject.Detail = p.HardLimit
			view.Stopped = append(view.Stopped, subject)
		}
		if p.Unattainable != "" {
			subject.Detail = p.Unattainable
			view.Short = append(view.Short, subject)
		}
	}
	for _, i := range snap.Inventories {
		if i.OpenedAt == nil {
			continue
		}
		view.Breakers = append(view.Breakers, watchdog.Subject{
			ID: i.Provider + " " + i.Site, Detail: explain.Breaker(i.Provider, i.Site, i.Reason),
		})
	}
	for _, m := range snap.Missing {
		view.Missing = append(view.Missing, watchdog.Subject{
			ID: m.WorkspaceID.String(), OrganizationID: m.OrganizationID, Template: m.Template, Preset: m.Preset,
			Detail: explain.Missing(m.Name, m.Provider),
		})
	}
	return view
}

// episodes makes notifications of what the watchdog sees.
type episodes struct {
	notifier *notify.Notifier
	known    map[notify.Kind]map[string]bool // what this replica has recorded, and need not again
}

func newEpisodes(notifier *notify.Notifier) *episodes {
	return &episodes{notifier: notifier, known: map[notify.Kind]map[string]bool{}}
}

// tell opens an episode for each that is new here, and ends those that are over, of whichever replica.
func (e *episodes) tell(ctx context.Context, v watchdog.View, stale string) error {
	var installation []watchdog.Subject
	if stale != "" {
		installation = []watchdog.Subject{{ID: "installation", Detail: stale}}
	}
	for _, k := range []struct {
		kind notify.Kind
		now  []watchdog.Subject
	}{{notify.Stale, installation}, {notify.HardLimit, v.Stopped}, {notify.Unattainable, v.Short}, {notify.BreakerOpen, v.Breakers}, {notify.ClaimedMissing, v.Missing}} {
		if err := e.keep(ctx, k.kind, k.now); err != nil {
			return err
		}
	}
	return nil
}

func (e *episodes) keep(ctx context.Context, kind notify.Kind, subjects []watchdog.Subject) error {
	known, now := e.known[kind], make(map[string]bool, len(subjects))
	ids := make([]string, 0, len(subjects))
	for _, s := range subjects {
		ids = append(ids, s.ID)
		if !known[s.ID] {
			_, err := e.notifier.Open(ctx, kind, notify.Episode{
				Subject: s.ID, OrganizationID: s.OrganizationID, Template: s.Template, Preset: s.Preset, Detail: s.Detail,
			})
			if err != nil {
				return err
			}
		}
		now[s.ID] = true
	}
	e.known[kind] = now
	_, err := e.notifier.End(ctx, kind, ids)
	return err
}

package alerts

import (
	"context"

	"github.com/prewarm-dev/prewarm/coderd/explain"
)

// episodes are what is wrong, of each kind, but for staleness.
func (s *Snapshot) episodes() map[Kind][]Episode {
	wrong := map[Kind][]Episode{}
	for i := range s.Presets {
		p := &s.Presets[i]
		for kind, detail := range map[Kind]string{HardLimit: p.HardLimit, Unattainable: p.Unattainable} {
			if detail != "" {
				wrong[kind] = append(wrong[kind], Episode{
					Subject: p.ID.String(), OrganizationID: p.OrganizationID, Template: p.Template, Preset: p.Preset, Detail: detail,
				})
			}
		}
	}
	for _, i := range s.Inventories {
		if i.OpenedAt != nil {
			wrong[BreakerOpen] = append(wrong[BreakerOpen], Episode{
				Subject: i.Provider + " " + i.Site, Detail: explain.Breaker(i.Provider, i.Site, i.Reason),
			})
		}
	}
	for _, m := range s.Missing {
		wrong[ClaimedMissing] = append(wrong[ClaimedMissing], Episode{
			Subject: m.WorkspaceID.String(), OrganizationID: m.OrganizationID, Template: m.Template, Preset: m.Preset,
			Detail: explain.Missing(m.Name, m.Provider),
		})
	}
	return wrong
}

// keepAll opens an episode for each that is new here, and ends those that are over, of whichever replica.
func (w *Watchdog) keepAll(ctx context.Context, wrong map[Kind][]Episode) error {
	for _, kind := range []Kind{Stale, HardLimit, Unattainable, BreakerOpen, ClaimedMissing} {
		if err := w.keep(ctx, kind, wrong[kind]); err != nil {
			return err
		}
	}
	return nil
}

func (w *Watchdog) keep(ctx context.Context, kind Kind, episodes []Episode) error {
	known, now := w.known[kind], make(map[string]bool, len(episodes))
	subjects := make([]string, 0, len(episodes))
	for _, e := range episodes {
		subjects = append(subjects, e.Subject)
		if !known[e.Subject] {
			if _, _, err := w.Notifier.Open(ctx, kind, e); err != nil {
				return err
			}
		}
		now[e.Subject] = true
	}
	w.known[kind] = now
	_, err := w.Notifier.End(ctx, kind, subjects)
	return err
}

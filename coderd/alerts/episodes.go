package alerts

import (
	"context"
	"slices"

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
				Subject: i.Provider + " " + i.Site, Detail: explain.Breaker(i.Provider, i.Site, i.Reason, i.ByCalls),
			})
		}
	}
	for _, m := range s.Missing {
		wrong[ClaimedMissing] = append(wrong[ClaimedMissing], Episode{
			Subject: m.WorkspaceID.String(), OrganizationID: m.OrganizationID, Template: m.Template, Preset: m.Preset,
			Detail: explain.Missing(m.Name, m.Provider),
		})
	}
	for i := range s.Refused {
		if r := &s.Refused[i]; !r.Unjudged {
			wrong[ClaimedRefused] = append(wrong[ClaimedRefused], r.episode())
		}
	}
	return wrong
}

// unjudged are the subjects of a kind of which this replica does not know whether they are over.
func (s *Snapshot) unjudged(kind Kind) (subjects []string) {
	for i := range s.Refused {
		if r := &s.Refused[i]; kind == ClaimedRefused && r.Unjudged {
			subjects = append(subjects, r.subject())
		}
	}
	return subjects
}

// keepAll opens an episode for each that is new here, and ends those that are over, of whichever replica.
func (w *Watchdog) keepAll(ctx context.Context, snap *Snapshot, wrong map[Kind][]Episode) error {
	for _, kind := range []Kind{Stale, HardLimit, Unattainable, BreakerOpen, ClaimedMissing, ClaimedRefused} {
		if kind == ClaimedRefused && !snap.Judged {
			continue
		}
		if err := w.keep(ctx, kind, wrong[kind], snap.unjudged(kind)); err != nil {
			return err
		}
	}
	return nil
}

// keep does so for one kind. What others judge is left as it is.
func (w *Watchdog) keep(ctx context.Context, kind Kind, episodes []Episode, others []string) error {
	known, now := w.known[kind], make(map[string]bool, len(episodes))
	subjects := slices.Clone(others)
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

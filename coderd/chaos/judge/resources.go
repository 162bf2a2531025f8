package judge

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// resources replays the provider's journal.
//
// A process that is killed may leave out a creation that it just made, or note a deletion that it did not get to; another
// deletion follows. Both make the count here smaller than the truth for a moment, never larger.
func (j *judge) resources() {
	alive := map[string]uuid.UUID{}
	of := map[uuid.UUID]int{}        // resources alive, by workspace
	late := map[string]time.Time{}   // since when, by provider id
	last := map[uuid.UUID]string{}   // the resource made last
	deleted := map[uuid.UUID]Event{} // how that one went
	for _, e := range j.Events {
		_, there := alive[e.ProviderID]
		switch {
		case e.Deleted:
			if last[e.WorkspaceID] == e.ProviderID {
				deleted[e.WorkspaceID] = e
			}
			if !there {
				continue
			}
			delete(alive, e.ProviderID)
			of[e.WorkspaceID]--
			if since, was := late[e.ProviderID]; was {
				j.stayed(e.WorkspaceID, e.NotBefore.Sub(since))
				delete(late, e.ProviderID)
			}
		case !there:
			alive[e.ProviderID] = e.WorkspaceID
			last[e.WorkspaceID] = e.ProviderID
			delete(deleted, e.WorkspaceID)
			if of[e.WorkspaceID]++; of[e.WorkspaceID] > 1 {
				j.wrong("duplicate: workspace %s had %d resources", e.WorkspaceID, of[e.WorkspaceID])
			}
			if w := j.Workspaces[e.WorkspaceID]; !w.DeletedAt.IsZero() && w.DeletedAt.Before(e.NotBefore) {
				late[e.ProviderID] = e.NotAfter
				j.Late++
				if !j.frozen(w, e) {
					j.wrong("late: workspace %s was created at the provider after its deletion, and nobody had been frozen",
						e.WorkspaceID)
				}
			}
		}
		j.Most = max(j.Most, len(alive))
		if n := len(alive) - len(late); j.Maximum > 0 && n > j.Maximum && !e.Deleted {
			j.wrong("maximum: with workspace %s there were %d resources at the provider besides late ones, the maximum is %d",
				e.WorkspaceID, n, j.Maximum)
		}
	}
	for id, e := range deleted {
		c := j.holder[id]
		if c != nil && (c.ReleaseAsked.IsZero() || e.NotAfter.Before(c.ReleaseAsked)) {
			j.wrong("deleted: the resource of workspace %s went before claim %s gave it back", id, c.Key)
		}
	}
}

func (j *judge) stayed(id uuid.UUID, d time.Duration) {
	j.LongestLate = max(j.LongestLate, d)
	if d > j.LateGrace {
		j.wrong("late: what was created late for workspace %s stayed for %s", id, d.Round(time.Second))
	}
}

// frozen says whether a replica was frozen that could have leased the create while the workspace lived and finished it
// when it woke up, after the deletion.
func (j *judge) frozen(w Workspace, e Event) bool {
	return slices.ContainsFunc(j.Freezes, func(f Freeze) bool {
		return f.From.After(w.CreatedAt) && f.From.Before(w.DeletedAt) && !f.To.After(e.NotAfter)
	})
}

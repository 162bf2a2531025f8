package prebuilds

import (
	"bytes"
	"cmp"
	"slices"
	"time"
)

// RenewAhead is how long before its expiry a prebuild's replacement is begun: as long as it may take to become ready, but not
// more than a tenth of its lifetime (C9).
func RenewAhead(ttl, bootTimeout time.Duration) time.Duration { return min(ttl/10, bootTimeout) }

// renewal replaces prebuilds shortly before they expire (C9), so that a pool does not shrink when they do. Up to a
// quarter of desired is built on top of it for them, and of those that expire soon as many go as there are ready ones
// more than wanted, the first to expire first.
type renewal struct {
	surge int          // creates beyond what is wanted
	gone  []*Workspace // replaced by now
	last  *Workspace   // of these, in the order of expiry
}

// renewals decides it, given the counts but for what depends on it.
func (p *Preset) renewals(ws []Workspace, c Counts, now time.Time) renewal {
	if p.RenewAhead <= 0 {
		return renewal{}
	}
	var soon []*Workspace
	for i := range ws {
		if w := &ws[i]; classify(p, w, now) == classActual && !w.Busy && p.expiresSoon(w, now) {
			soon = append(soon, w)
		}
	}
	if len(soon) == 0 {
		return renewal{}
	}
	slices.SortFunc(soon, firstToExpire)
	n := min(len(soon), max(0, c.Actual-p.readyAtJobs(ws, now)-p.wanted()))
	r := renewal{surge: min(len(soon)-n, (p.desired()+3)/4), gone: soon[:n]}
	if n > 0 {
		r.last = soon[n-1]
	}
	return r
}

// replaced says whether w, which is actual, is one of those that go.
func (r renewal) replaced(w *Workspace) bool {
	return r.last != nil && !w.ExpiresAt.IsZero() && firstToExpire(w, r.last) <= 0
}

func firstToExpire(a, b *Workspace) int {
	return cmp.Or(a.ExpiresAt.Compare(b.ExpiresAt), bytes.Compare(a.ID[:], b.ID[:]))
}

func (p *Preset) expiresSoon(w *Workspace, now time.Time) bool {
	return !w.ExpiresAt.IsZero() && !now.Before(w.ExpiresAt.Add(-p.RenewAhead))
}

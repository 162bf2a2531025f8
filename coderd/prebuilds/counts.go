package prebuilds

import "time"

// Counts are those of rule C3 for one preset. Deleting, Stopping, Quarantined, Outdated, Expired, Starting and Actual
// partition its unclaimed workspaces; Eligible cuts across them, Extraneous is a part of Starting and Actual, and Standby
// is a part of Actual.
type Counts struct {
	Desired     int `json:"desired"`
	Actual      int `json:"actual"`
	Standby     int `json:"standby"`
	Eligible    int `json:"eligible"`
	Starting    int `json:"starting"`
	Stopping    int `json:"stopping"`
	Deleting    int `json:"deleting"`
	Outdated    int `json:"outdated"`
	Extraneous  int `json:"extraneous"`
	Expired     int `json:"expired"`
	Quarantined int `json:"quarantined"`
	Waiting     int `json:"waiting"`
	// Queued are jobs that wait for a runner; left out of the JSON where there are none.
	Queued int `json:"queued,omitempty"`
}

// All yields each count under the name that JSON, metrics and logs have for it (C3).
func (c Counts) All(yield func(name string, n int) bool) {
	for _, count := range []struct {
		name string
		n    int
	}{
		{"desired", c.Desired},
		{"actual", c.Actual},
		{"standby", c.Standby},
		{"eligible", c.Eligible},
		{"starting", c.Starting},
		{"stopping", c.Stopping},
		{"deleting", c.Deleting},
		{"outdated", c.Outdated},
		{"extraneous", c.Extraneous},
		{"expired", c.Expired},
		{"quarantined", c.Quarantined},
		{"waiting", c.Waiting},
		{"queued", c.Queued},
	} {
		if !yield(count.name, count.n) {
			return
		}
	}
}

// Unclaimed is how many workspaces were counted.
func (c Counts) Unclaimed() int {
	return c.Deleting + c.Stopping + c.Quarantined + c.Outdated + c.Expired + c.Starting + c.Actual
}

// Count counts the unclaimed workspaces ws of p at the instant now. Claimed and deleted ones, and those in an unknown
// state, are in no class.
func Count(p Preset, ws []Workspace, now time.Time) Counts {
	p = p.at(now)
	c := Counts{Desired: p.desired(), Waiting: p.Waiting, Queued: p.queued()}
	for i := range ws {
		switch classify(&p, &ws[i], now) {
		case classNone:
		case classDeleting:
			c.Deleting++
		case classStopping:
			c.Stopping++
		case classQuarantined:
			c.Quarantined++
		case classOutdated:
			c.Outdated++
		case classExpired:
			c.Expired++
		case classStarting:
			c.Starting++
		case classActual:
			c.Actual++
			if ws[i].State == Standby {
				c.Standby++
			}
		}
		if eligible(&p, &ws[i], now) {
			c.Eligible++
		}
	}
	renewal := p.renewals(ws, c, now)
	c.Extraneous = p.surplus(c, ws, now, renewal)
	return c
}

// class is where a workspace stands in the partition of C3.
type class int

const (
	classNone class = iota // not the planner's: claimed, deleted, or in an unknown state
	classDeleting
	classStopping
	classQuarantined
	classOutdated
	classExpired
	classStarting
	classActual
)

// classify puts a workspace in the first class that fits. What is on its way out is so whatever else holds of it; an
// outdated one is outdated even when it is expired, because no TTL brings the old version back.
func classify(p *Preset, w *Workspace, now time.Time) class {
	switch {
	case !Unclaimed(w.State):
		return classNone
	case w.State == Deleting:
		return classDeleting
	case w.State == Draining || w.HasIntent:
		return classStopping
	case w.State == Quarantined:
		return classQuarantined
	case w.PoolKey != p.PoolKey:
		return classOutdated
	case w.expired(now):
		return classExpired
	case w.settled():
		return classActual
	default:
		return classStarting
	}
}

// eligible says whether a claim would take w now. Its intent, if any, is no obstacle: a claim wins over it (I2).
func eligible(p *Preset, w *Workspace, now time.Time) bool {
	return w.settled() && !w.expired(now) && p.Retired == "" && (w.PoolKey == p.PoolKey || p.KeepOutdated)
}

// desired is how many prebuilds p should have. C4: a retired preset scales to zero.
func (p *Preset) desired() int {
	if p.Retired != "" {
		return 0
	}
	return p.Desired
}

// wanted is what Actual and Starting are made to meet (C5, P3). Nobody gets a workspace of a retired preset by waiting.
func (p *Preset) wanted() int {
	if p.Retired != "" {
		return 0
	}
	return p.Desired + p.demand()
}

// demand is what is wanted on top of desired: a workspace for each claim and each job that waits.
func (p *Preset) demand() int { return p.Waiting + p.queued() }

// expired says whether w's TTL is over; the instant of expiry itself is past it, as in the claim's statement.
func (w *Workspace) expired(now time.Time) bool {
	return !w.ExpiresAt.IsZero() && !now.Before(w.ExpiresAt)
}

// settled says whether w is built: ready, or stopped on purpose afterwards.
func (w *Workspace) settled() bool { return w.State == Ready || w.State == Standby }

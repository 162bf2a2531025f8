package prebuilds

import "time"

// Rollout is how far a version is on its way to replace others (C7); part of a ledger while there are outdated prebuilds
// that are kept until they are replaced.
type Rollout struct {
	Phase    RolloutPhase `json:"phase"`
	Ready    int          `json:"ready"`    // of the active version
	Desired  int          `json:"desired"`  // of it
	Outdated int          `json:"outdated"` // kept so far
	// Reason says why it stopped, or what holds it up; empty where nothing does.
	Text string `json:"reason,omitempty"`
	Reason
}

// RolloutPhase is whether a rollout goes on by itself.
type RolloutPhase string

const (
	RolloutProgressing RolloutPhase = "progressing"
	// RolloutStopped until the version changes, somebody rolls back or resets the preset; the old pool is kept.
	RolloutStopped RolloutPhase = "stopped"
)

// proving is how many prebuilds of a version are begun at most, next to an old pool that still serves, before one of them
// became ready: a broken version costs no more than these.
const proving = HardLimit

// rollout is what holds for the creates and drains of a preset that has outdated ones.
type rollout struct {
	outdated int    // built, and not on their way out
	kept     int    // of these, until they are replaced
	most     int    // current ones there may be beside those kept, by max_surge
	stopped  Reason // no code: it goes on
	rule     string
	proves   bool      // nothing of this version was ever ready, and the old pool serves
	look     time.Time // when time alone may stop it
}

// rollingOut decides it; nil where nothing outdated is built.
func (p *Preset) rollingOut(ws []Workspace, c Counts, now time.Time) *rollout {
	r := &rollout{}
	for i := range ws {
		if w := &ws[i]; w.settled() && !w.Busy && !w.GivenUp && !w.expired(now) && classify(p, w, now) == classOutdated {
			r.outdated++
		}
	}
	if r.outdated == 0 {
		return nil
	}
	r.proves = p.Unproven && c.Actual == 0
	unavailable := p.MaxUnavailable.of(p.desired(), false, 0)
	surge := p.MaxSurge.of(p.desired(), true, p.desired())
	if surge == 0 && unavailable == 0 {
		unavailable = 1 // else nothing could ever move
	}
	switch deadline := p.RolloutAt.Add(p.ProgressDeadline); {
	case p.hardLimited():
		r.rule, r.stopped = "C8", Reason{CreatesFail, Args{Count: p.FailureStreak, Cause: p.LastFailure}}
	case !r.proves || p.ProgressDeadline == 0 || c.Starting == 0: // not by its own doing
	case now.Before(deadline):
		r.look = deadline
	default:
		r.rule, r.stopped = "C7", Reason{DeadlineIsOut, Args{Deadline: p.ProgressDeadline}}
	}
	if r.stopped.Code != "" {
		unavailable = 0 // the old pool is all there is
	}
	r.kept = min(r.outdated, max(0, p.desired()-unavailable-c.Actual+p.readyAtJobs(ws, now)))
	if r.kept == 0 {
		r.stopped = Reason{} // nothing is left to protect
	}
	r.most = max(0, p.wanted()+surge-r.kept)
	return r
}

// holdBackForRollout takes out of Create what a rollout may not begin yet.
func (plan *Plan) holdBackForRollout(p *Preset, r *rollout) {
	if r == nil || r.kept == 0 || p.Retired != "" {
		return
	}
	has := plan.Counts.Actual + plan.Counts.Starting
	told := &Rollout{Phase: RolloutProgressing, Ready: plan.Counts.Actual, Desired: p.desired(), Outdated: r.kept}
	plan.Ledger.Rollout = told
	if r.stopped.Code != "" {
		told.Phase, told.Reason = RolloutStopped, r.stopped
		if r.rule == "C7" {
			plan.holdBack(plan.Create, r.rule, r.stopped.behind(RolloutHeld))
		}
		return
	}
	if over := min(plan.Create, has+plan.Create-r.most); over > 0 {
		plan.holdBack(over, "C7", Reason{MaxSurge, Args{Share: p.MaxSurge, Count: r.kept}})
	}
	if !r.proves || !p.KeepOutdated {
		return
	}
	if over := min(plan.Create, plan.Counts.Starting+plan.Create-proving-p.demand()); over > 0 {
		plan.holdBack(over, "C7", Reason{Proving, Args{Limit: proving}})
	}
}

package prebuilds

import "time"

// Runner is what makes the prebuilds of a preset runners of a forge. Each job that waits wants one on top of desired (P3),
// which is the least that are to be idle.
type Runner struct {
	Queued  int // jobs that are this preset's demand
	Maximum int // of runners, whatever they do; 0: no limit of its own
	Busy    int // runners that are claimed by their jobs; only read where Maximum is set
	// ShrunkAt is when surplus last went; zero: never.
	ShrunkAt time.Time
	// Stopped is there while a person has stopped the forge: no runner is made, for a job or to be idle (P1).
	Stopped *ForgeStop
}

// ForgeStop is a person's word on a forge. One that drains has the idle runners go too: then the preset is Retired.
type ForgeStop struct {
	Forge string // the entity's name
	Cause string // in the person's words
}

const stopRule = "P1"

// holdBackForStop makes no runner of a forge that is stopped. What a preset has stays, and goes as it would otherwise.
func (plan *Plan) holdBackForStop(p *Preset) {
	if p.Runner == nil || p.Runner.Stopped == nil {
		return
	}
	stop := p.Runner.Stopped
	plan.holdBack(plan.Create, stopRule, Reason{ForgeStopped, Args{Forge: stop.Forge, Cause: stop.Cause}})
}

// retirement is why a retired preset scales to zero, and the rule behind it.
func (p *Preset) retirement() (rule string, why Reason) {
	why.Code = p.Retired
	if p.Retired != ForgeDrained {
		return "C4", why
	}
	if p.Runner != nil && p.Runner.Stopped != nil {
		why.Args = Args{Forge: p.Runner.Stopped.Forge, Cause: p.Runner.Stopped.Cause}
	}
	return stopRule, why
}

// Retirement is why the preset scales to zero; no code where it does not.
func (p *Preset) Retirement() Reason {
	if p.Retired == "" {
		return Reason{}
	}
	_, why := p.retirement()
	return why
}

// shrinkEvery is how long after surplus runners went the next half of those left goes (P8).
const shrinkEvery = time.Minute

const shrinkRule = "P8"

// queued is how many jobs want a runner of this preset.
func (p *Preset) queued() int {
	if p.Runner == nil {
		return 0
	}
	return p.Runner.Queued
}

// atJobs is how many of those that the preset has are at a job without being claimed yet. They are what it has, so that none
// is created in their place while the job may still count as queued; and they are no surplus, so that none that is idle goes
// in the place of one that cannot (P7).
func (p *Preset) atJobs(ws []Workspace, now time.Time) (n int) {
	for i := range ws {
		if w := &ws[i]; w.Busy {
			if c := classify(p, w, now); c == classActual || c == classStarting {
				n++
			}
		}
	}
	return n
}

// readyAtJobs is how many of the actual ones are at a job: the next job finds them taken.
func (p *Preset) readyAtJobs(ws []Workspace, now time.Time) (n int) {
	for i := range ws {
		if w := &ws[i]; w.Busy && classify(p, w, now) == classActual {
			n++
		}
	}
	return n
}

// enterAtJobs says in the ledger which of those that are more than wanted are no surplus, since they are at a job.
func (plan *Plan) enterAtJobs(n int) {
	sum := 0
	for _, line := range plan.Ledger.Creates {
		sum += line.Count
	}
	if n = min(n, -sum); n > 0 {
		plan.Ledger.because(LabelAtJobs, n, "P7", Reason{Code: AtJobs})
	}
}

// releaseSurplus lets the surplus of the active version go. Of runners it is a half, rounded up, and the next half a minute
// later (P8): jobs come in bursts, and what goes now may be wanted again in a moment.
func (plan *Plan) releaseSurplus(p *Preset, current []*Workspace, now time.Time) {
	surplus := plan.Counts.Extraneous
	if p.Runner == nil || p.Retired != "" || p.Pause != "" || p.Breaker != "" {
		plan.release(p, current, surplus, "C6", Reason{Code: Extraneous})
		return
	}
	goes, next := (surplus+1)/2, p.Runner.ShrunkAt.Add(shrinkEvery)
	if now.Before(next) {
		goes = 0
		if surplus > 0 {
			plan.retryAt(next)
		}
	}
	plan.release(p, current, goes, shrinkRule, Reason{Code: SurplusHalves})
	plan.Ledger.drain(LabelKeep, surplus-goes, shrinkRule, Reason{Code: SurplusHalves})
}

// NextShrink is when the next half of the surplus goes.
func (plan *Plan) NextShrink(now time.Time) time.Time {
	if at, shrinks := plan.Shrinks(now); shrinks {
		return at
	}
	return plan.Preset.Runner.ShrunkAt.Add(shrinkEvery)
}

// Shrinks says whether surplus runners go by this plan, and when to look again. Whoever carries it out keeps the instant as
// ShrunkAt, on which the next plan depends.
func (plan *Plan) Shrinks(now time.Time) (lookAgain time.Time, shrinks bool) {
	for i := range plan.Intents {
		if plan.Intents[i].Rule == shrinkRule {
			return now.Add(shrinkEvery), true
		}
	}
	return time.Time{}, false
}

// there is how many of them are or may be at their provider.
func there(ws []Workspace) (n int) {
	for i := range ws {
		if !ws[i].Gone {
			n++
		}
	}
	return n
}

// holdBackForMaximum keeps all that is live of a preset of runners within its own maximum (S4): what is unclaimed, in
// whatever state, and what is busy. It makes nothing go to get there, but for an outdated one in whose place a current one
// is to be.
func (plan *Plan) holdBackForMaximum(p *Preset, unclaimed int) {
	if p.Runner == nil || p.Runner.Maximum == 0 {
		return
	}
	over := min(plan.Create, unclaimed+p.Runner.Busy+plan.Create-p.Runner.Maximum)
	if over <= 0 {
		return
	}
	reason := Reason{RunnerMaximum, Args{Limit: p.Runner.Maximum, Count: p.Runner.Busy}}
	plan.holdBack(over, "S4", reason)
	plan.makeRoom(p, over, reason)
}

package prebuilds

import "time"

// Desired is how many prebuilds a preset should have at the instant now: the only place that decides it. Why is the
// ledger's first line, and look is when time alone may change the answer; zero if it can not.
//
// A retired preset should have none (C4). Else a range of the schedule that applies comes before the preset's own
// instances (C9).
func Desired(p Preset, now time.Time) (why Line, look time.Time) {
	why = Line{Label: "desired", Count: p.Desired}
	switch {
	case p.Retired != "":
		why.Count = 0
		why.Rule, why.Reason = p.retirement()
		return why, time.Time{}
	case p.Autosized:
		why.Code = Autosized
	}
	if p.Schedule == nil {
		return why, time.Time{}
	}
	if r, ok := p.Schedule.At(now); ok {
		why.Count, why.Rule = r.Instances, "C9"
		why.Reason = Reason{Scheduled, Args{Cron: r.Cron, Timezone: p.Schedule.Timezone}}
	}
	return why, p.Schedule.look(now)
}

// at is the preset with what it should have at that instant as its own number, and without a schedule.
func (p Preset) at(now time.Time) Preset {
	if p.Schedule != nil {
		why, _ := Desired(p, now)
		p.Desired, p.Schedule = why.Count, nil
	}
	return p
}

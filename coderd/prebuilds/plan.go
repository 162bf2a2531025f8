package prebuilds

import (
	"slices"
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"
)

// Plan is what a pass decided for one preset, and why.
type Plan struct {
	PresetID uuid.UUID `json:"preset_id"`
	Counts   Counts    `json:"counts"`
	Create   int       `json:"create"`
	Intents  []Intent  `json:"intents"`
	Moves    []Move    `json:"moves,omitempty"`
	Ledger   Ledger    `json:"ledger"`
	// RetryAt is the earliest instant at which the same rows could give another plan, because a backoff ends or a
	// workspace expires; zero if time alone changes nothing. Before it the plan is the same to the byte.
	RetryAt time.Time `json:"retry_at,omitzero"`

	// Preset is the one that was decided on, with the pause that holds and what was counted for it.
	Preset Preset `json:"-"`
	// Again: it was held back, and the next pass may go on at once, with a chunk of its own.
	Again bool `json:"-"`

	// replaceable are the outdated ones that are kept and that may give their places to current ones under a full maximum,
	// the first to go first.
	replaceable []*Workspace
	// inFlight is how many are being built, of whatever version.
	inFlight int
}

// HeldBackBy says whether a limit of that code holds creates back.
func (plan *Plan) HeldBackBy(code Code) bool {
	return slices.ContainsFunc(plan.Ledger.Creates, func(l Line) bool { return l.Code == code })
}

// MakePlan decides for one preset, given all of its unclaimed workspaces in any order. What it cannot make sense of (a
// negative number, a workspace of another preset or in a state that no unclaimed one is in) is an error, not a guess.
func MakePlan(p Preset, ws []Workspace, now time.Time) (Plan, error) {
	if err := validate(&p, ws); err != nil {
		return Plan{}, xerrors.Errorf("plan preset %s/%s: %w", p.Template, p.Name, err)
	}
	desired, look := Desired(p, now)
	given := p
	p = p.at(now)
	plan := Plan{PresetID: p.ID, Preset: given, Counts: Count(p, ws, now), Intents: []Intent{}}
	renewal := p.renewals(ws, plan.Counts, now)
	plan.openLedger(&p, desired, renewal)
	plan.enterAtJobs(p.atJobs(ws, now))
	rollout := p.rollingOut(ws, plan.Counts, now)
	plan.holdBackForStop(&p)
	plan.holdBackCreates(&p, rollout, now)
	plan.holdBackInFlight(&p, ws)
	plan.letGo(&p, ws, renewal, rollout, now)
	plan.holdBackForMaximum(&p, there(ws))
	plan.moveTiers(&p, ws)
	plan.retryAt(look)
	plan.retryAt(nextExpiry(&p, ws, now))
	if p.Pause != "" && p.PauseUntil.After(now) {
		plan.retryAt(p.PauseUntil) // a pause that is over has nobody to nudge
	}
	return plan, nil
}

func validate(p *Preset, ws []Workspace) error {
	for _, n := range []struct {
		name  string
		value int
	}{{"desired", p.Desired}, {"waiting", p.Waiting}, {"failure streak", p.FailureStreak}, {"waiting but cold", p.Waiting - len(p.Cold)}, {"queued", p.queued()}} {
		if n.value < 0 {
			return xerrors.Errorf("%s is negative: %d", n.name, n.value)
		}
	}
	for i := range ws {
		if ws[i].PresetID != p.ID {
			return xerrors.Errorf("workspace %s is of preset %s, not of %s", ws[i].ID, ws[i].PresetID, p.ID)
		}
		if !Unclaimed(ws[i].State) {
			return xerrors.Errorf("workspace %s is in state %q, which no unclaimed workspace is in",
				ws[i].ID, ws[i].State)
		}
	}
	return nil
}

// holdBackCreates takes out of Create what this preset's own condition forbids. Nothing here touches the intents: a
// failing create must never keep what is no longer wanted alive (C8).
func (plan *Plan) holdBackCreates(p *Preset, r *rollout, now time.Time) {
	switch {
	case p.Pause != "":
		plan.holdBack(plan.Create, "C10", Reason{Paused, Args{Cause: p.Pause}})
	case p.Breaker != "":
		plan.holdBack(plan.Create, "S3", Reason{BreakerOpen, Args{Provider: p.Provider, Cause: p.Breaker}})
	case p.hardLimited():
		plan.holdBack(plan.Create, "C8", Reason{HardLimited, Args{Count: p.FailureStreak, Cause: p.LastFailure}})
	case p.FailureStreak > 0 && plan.Create > 0:
		if end := p.BackoffEnd(); now.Before(end) {
			plan.holdBack(plan.Create, "C8", Reason{Backoff, Args{Until: end, Count: p.FailureStreak, Cause: p.LastFailure}})
			plan.retryAt(end)
		}
	}
	plan.holdBackForRollout(p, r)
	if r != nil {
		plan.retryAt(r.look)
	}
}

// holdBackInFlight keeps what is being built at once within the preset's own limit. Those for waiting claims come first
// among what is left (S5).
func (plan *Plan) holdBackInFlight(p *Preset, ws []Workspace) {
	for i := range ws {
		if ws[i].State == Provisioning || ws[i].State == Starting {
			plan.inFlight++
		}
	}
	if over := min(plan.Create, plan.inFlight+plan.Create-p.CreatesInFlight); p.CreatesInFlight > 0 && over > 0 {
		plan.holdBack(over, "S5", Reason{CreatesInFlight, Args{Limit: p.CreatesInFlight}})
	}
}

// retryAt makes the plan be looked at again at t, if that is earlier than it would be anyway. A zero t is never.
func (plan *Plan) retryAt(t time.Time) {
	if !t.IsZero() && (plan.RetryAt.IsZero() || t.Before(plan.RetryAt)) {
		plan.RetryAt = t
	}
}

// nextExpiry is the first expiry after now, or the first time at which one is near enough to be prepared for; zero if
// there is none. One with an intent counts too, for while nobody has carried it out, its expiry still changes what is
// eligible.
func nextExpiry(p *Preset, ws []Workspace, now time.Time) time.Time {
	var next time.Time
	for i := range ws {
		w := &ws[i]
		if w.ExpiresAt.IsZero() || w.expired(now) || !(w.settled() || w.State == Starting || w.State == Provisioning) {
			continue
		}
		at := w.ExpiresAt
		if ahead := at.Add(-p.RenewAhead); ahead.After(now) {
			at = ahead
		}
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}

package prebuilds

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"
)

// IntentKind is what an intent asks for.
type IntentKind string

const (
	// Drain takes a workspace out of eligibility and deregisters it before it is deleted.
	Drain IntentKind = "drain"
	// Cancel ends a create: at no cost where it was never leased, else by deleting what it may have made (C11).
	Cancel IntentKind = "cancel"
)

// Intent says that one unclaimed workspace, in one incarnation, is to go, and why. A worker carries it out unless a
// claim came first. Kind is by the state that the pass saw; the worker goes by the state that it finds.
type Intent struct {
	WorkspaceID uuid.UUID  `json:"workspace_id"`
	Incarnation int32      `json:"incarnation"`
	Kind        IntentKind `json:"kind"`
	Rule        string     `json:"rule"`
	Reason
}

// letGo decides which workspaces go.
func (plan *Plan) letGo(p *Preset, ws []Workspace, renewal renewal, rollout *rollout, now time.Time) {
	var current, expired, unfinished, outdated, givenUp []*Workspace
	cold := p.coldBuilds(ws, now)
	for i := range ws {
		w := &ws[i]
		switch c := classify(p, w, now); {
		case w.Busy: // it goes by itself, when its job is over
		case cold[i]: // somebody waits for this one
		case c == classActual && renewal.replaced(w):
		case c == classStarting || c == classActual:
			current = append(current, w)
		case c == classExpired || c == classOutdated && w.expired(now):
			expired = append(expired, w)
		case c == classOutdated && !w.settled():
			unfinished = append(unfinished, w)
		case c == classOutdated && w.GivenUp: // nothing there is kept until it is replaced
			givenUp = append(givenUp, w)
		case c == classOutdated:
			outdated = append(outdated, w)
		}
	}
	// C7: while fewer than desired current ones are ready, outdated ones stay in their place.
	kept := 0
	if rollout != nil {
		kept = rollout.kept
	}

	plan.release(p, expired, len(expired), "C9", Reason{Code: Expired})
	plan.release(p, renewal.gone, len(renewal.gone), "C9", Reason{Code: Renewed})
	plan.release(p, unfinished, len(unfinished), "C11", Reason{Code: OutdatedUnready})
	plan.release(p, givenUp, len(givenUp), "C4", Reason{Code: ProviderDeleted})
	slices.SortFunc(outdated, firstToGo)
	plan.release(p, outdated, len(outdated)-kept, "C7", Reason{Code: Outdated})
	plan.releaseSurplus(p, current, now)
	plan.Ledger.drain(LabelKeep, kept, keepRule, Reason{Code: KeptUntilReplaced})
	if p.Pause == "" && p.Breaker == "" && p.Retired == "" {
		plan.replaceable = outdated[len(outdated)-kept:] // those behind them go
		if p.KeepOutdated || p.Runner != nil {           // an outdated runner still takes jobs
			plan.replaceable = plan.replaceable[:p.spare(plan.Counts.Actual-p.readyAtJobs(ws, now), kept)]
		}
	}
}

const keepRule = "C7"

// spare is how many of the kept outdated ones may give their places under a full maximum though people could claim them:
// one, while none is missing, where max_unavailable is left out. Where it is given, it was heeded before.
func (p *Preset) spare(actual, kept int) int {
	if p.MaxUnavailable != "" || p.hardLimited() || actual+kept < p.desired() {
		return 0
	}
	return min(1, kept)
}

// makeRoom lets go of kept outdated prebuilds in whose place a maximum holds n creates back. Without their places the pool
// would never be of the active version again.
func (plan *Plan) makeRoom(p *Preset, n int, reason Reason) {
	n = min(n, len(plan.replaceable))
	plan.Ledger.drain(LabelKeep, -n, keepRule, Reason{Code: KeptUntilReplaced})
	plan.release(p, plan.replaceable, n, "S4", reason.behind(MakesRoom))
	plan.replaceable = plan.replaceable[n:]
}

// release makes intents for the n of ws that are the first to go. It sorts ws.
func (plan *Plan) release(p *Preset, ws []*Workspace, n int, rule string, reason Reason) {
	if n == 0 {
		return
	}
	if p.Retired != "" {
		rule, reason = p.retirement()
	}
	if p.Pause != "" {
		plan.Ledger.drain(LabelKeep, n, "C10", Reason{Paused, Args{Cause: p.Pause, Of: reason.Code}})
		return
	}
	if p.Breaker != "" { // what goes could not be deleted, nor replaced
		plan.Ledger.drain(LabelKeep, n, "S3", Reason{BreakerOpen, Args{Provider: p.Provider, Cause: p.Breaker, Of: reason.Code}})
		return
	}
	slices.SortFunc(ws, firstToGo)
	plan.Intents = slices.Grow(plan.Intents, n)
	for _, w := range ws[:n] {
		kind := Drain
		if w.State == Provisioning {
			kind = Cancel
		}
		plan.Intents = append(plan.Intents, Intent{w.ID, w.Incarnation, kind, rule, reason})
		plan.Ledger.drain(string(kind), 1, rule, reason)
	}
}

// firstToGo orders by how little is lost (C6): what has cost nothing yet, what is not ready, then the oldest. Ties are
// broken by id, so that the choice depends on what the workspaces are and not on the order in which they were read.
func firstToGo(a, b *Workspace) int {
	return cmp.Or(
		cmp.Compare(a.worth(), b.worth()),
		a.CreatedAt.Compare(b.CreatedAt),
		bytes.Compare(a.ID[:], b.ID[:]),
	)
}

// worth ranks how far w has come on its way to a claim.
func (w *Workspace) worth() int {
	switch {
	case w.State == Provisioning && !w.Leased:
		return 0
	case w.State == Provisioning:
		return 1
	case w.State == Starting:
		return 2
	case w.State == Standby:
		return 3
	default:
		return 4
	}
}

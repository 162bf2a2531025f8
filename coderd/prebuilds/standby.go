package prebuilds

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/google/uuid"
)

// MoveKind is what a move asks for.
type MoveKind string

const (
	// Stop takes a ready prebuild into standby.
	Stop MoveKind = "stop"
	// Start takes one out of standby, to be ready when it has started.
	Start MoveKind = "start"
)

// Move says that one unclaimed workspace, in one incarnation, is to be in another tier. It stays actual, and a claim that
// comes first wins. It goes nowhere: what is to go has an intent.
type Move struct {
	WorkspaceID uuid.UUID `json:"workspace_id"`
	Incarnation int32     `json:"incarnation"`
	Kind        MoveKind  `json:"kind"`
	Reason
}

// MoveRule is the rule of all moves.
const MoveRule = "C17"

// running is how many of p's prebuilds run, by its tier and for the claims that wait; without a tier all.
func (p *Preset) running() int {
	n := p.desired()
	if p.Running != "" {
		n = min(n, p.Running.of(n, true, n))
	}
	return n + p.Waiting
}

// moveTiers decides C17: which of those that the preset has are stopped, and which of the stopped are started. What is
// being created for the first time is not counted as running, for it may take long and a start does not: so a claimed one
// is followed by one out of standby, and the one created in its place is stopped when it is ready.
//
// The youngest is stopped, since claims take the oldest, and of the stopped the oldest is started.
func (plan *Plan) moveTiers(p *Preset, ws []Workspace) {
	if p.Running == "" && plan.Counts.Standby == 0 || p.Pause != "" || p.Breaker != "" || p.Retired != "" {
		return
	}
	goes := make(map[uuid.UUID]bool, len(plan.Intents))
	for i := range plan.Intents {
		goes[plan.Intents[i].WorkspaceID] = true
	}
	var ready, stopped []*Workspace
	running := 0
	for i := range ws {
		w := &ws[i]
		switch {
		case goes[w.ID] || w.HasIntent || w.Busy || w.PoolKey != p.PoolKey:
		case w.State == Starting && w.WasReady:
			running++
		case !w.settled():
		case w.State == Ready && !w.Moving:
			ready = append(ready, w)
			running++
		case w.State == Standby && !w.Moving:
			stopped = append(stopped, w)
		case w.State == Standby: // to be started
			running++
		}
	}
	switch most := p.running(); {
	case p.Running == "":
		plan.move(stopped, len(stopped), Start, NoTier)
	case running > most:
		slices.SortFunc(ready, func(a, b *Workspace) int { return older(b, a) })
		plan.move(ready, min(running-most, len(ready)), Stop, MoreRun)
	case running < most:
		slices.SortFunc(stopped, older)
		plan.move(stopped, min(most-running, len(stopped)), Start, FewerRun)
	}
}

func (plan *Plan) move(ws []*Workspace, n int, kind MoveKind, code Code) {
	if n == 0 {
		return
	}
	slices.SortFunc(ws[:n], older) // the plan does not depend on the order of the rows
	for _, w := range ws[:n] {
		plan.Moves = append(plan.Moves, Move{w.ID, w.Incarnation, kind, Reason{Code: code}})
	}
	plan.Ledger.Moves = append(plan.Ledger.Moves, Line{Label: string(kind), Count: n, Rule: MoveRule, Reason: Reason{Code: code}})
}

func older(a, b *Workspace) int {
	return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), bytes.Compare(a.ID[:], b.ID[:]))
}

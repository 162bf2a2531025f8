package prebuilds

import "github.com/google/uuid"

// moves: C17. What is stopped is ready, what is started is stopped, nothing that goes is either, and no more is done than
// brings the number of those that run to what the tier says. No claim that could be served at once is made to wait for a
// start by our doing.
func (c *checker) moves(ws []Workspace) {
	p, moved := c.preset, make(map[uuid.UUID]MoveKind, len(c.plan.Moves))
	if len(c.plan.Moves) > 0 && (c.still() || p.Retired != "") {
		c.fail("C17: %d moves of a preset that is paused, retired or behind an open breaker", len(c.plan.Moves))
	}
	for _, m := range c.plan.Moves {
		w, known := c.byID[m.WorkspaceID]
		from := map[MoveKind]State{Stop: Ready, Start: Standby}[m.Kind]
		switch {
		case !known || moved[m.WorkspaceID] != "" || w.Moving || c.gone[w.ID] || !c.active(w):
			c.fail("C17: workspace %s cannot be moved: %+v", m.WorkspaceID, w)
		case w.State != from || w.Incarnation != m.Incarnation || m.Code == "":
			c.fail("C17: move %s of workspace %s in state %s", m.Kind, w.ID, w.State)
		}
		moved[m.WorkspaceID] = m.Kind
	}
	if c.still() || p.Retired != "" {
		return
	}
	target := p.Desired + p.Waiting // of those that run
	if p.Running != "" {
		target = min(p.Desired, p.Running.of(p.Desired, true, 0)) + p.Waiting
	}
	run, still, stops, starts, standby := 0, 0, 0, 0, 0
	for _, w := range ws {
		if c.active(w) && w.State == Standby {
			standby++
		}
		switch {
		case !c.active(w) || c.gone[w.ID] || w.Busy:
		case moved[w.ID] == Stop:
			stops++
		case moved[w.ID] == Start:
			starts++
		case w.State == Ready && !w.Moving, w.State == Standby && w.Moving, w.State == Starting && w.WasReady:
			run++
		case w.State == Standby:
			still++
		}
	}
	switch {
	case p.Running == "" && (stops > 0 || still > 0):
		c.fail("C17: %d are stopped and %d stay so, without a tier", stops, still)
	case stops > 0 && (starts > 0 || run < target):
		c.fail("C17: %d are stopped and %d started, though only %d of %d run", stops, starts, run, target)
	case p.Running != "" && starts > 0 && run+starts > target:
		c.fail("C17: %d are started, though %d of %d run", starts, run, target)
	case p.Running != "" && still > 0 && run+starts < target:
		c.fail("C17: %d stay stopped, though only %d of %d run", still, run+starts, target)
	}
	if standby != c.plan.Counts.Standby || c.plan.Counts.Standby > c.plan.Counts.Actual {
		c.fail("C3: standby %d, but there are %d", c.plan.Counts.Standby, standby)
	}
	told := 0
	for _, line := range c.plan.Ledger.Moves {
		told += line.Count
	}
	if told != len(c.plan.Moves) {
		c.fail("ledger moves %d, but the plan has %d moves", told, len(c.plan.Moves))
	}
}

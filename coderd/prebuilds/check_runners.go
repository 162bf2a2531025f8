package prebuilds

import "time"

// wanted is what the preset is to have: desired, and one for each claim and each job that waits.
func (c *checker) wanted() int {
	n := c.preset.Desired + c.preset.Waiting
	if r := c.preset.Runner; r != nil {
		n += r.Queued
	}
	return n
}

// runners: P7, P8, S4. None that has a job goes, and what is created keeps all that is live within the preset's maximum.
func (c *checker) runners(ws []Workspace) {
	for _, w := range ws {
		if w.Busy && c.gone[w.ID] {
			c.fail("P7: workspace %s goes, though it has a job", w.ID)
		}
	}
	r := c.preset.Runner
	if r != nil && r.Stopped != nil && c.plan.Create > 0 {
		c.fail("P1: create %d of a forge that is stopped", c.plan.Create)
	}
	if r == nil || r.Maximum == 0 || c.plan.Create == 0 {
		return
	}
	if n := there(ws) + r.Busy + c.plan.Create; n > r.Maximum {
		c.fail("S4: %d runners, busy ones and those created included, but at most %d may be", n, r.Maximum)
	}
}

// mayGo is how much of a surplus goes at once: of runners half, rounded up, once a minute (P8).
func (c *checker) mayGo(surplus int) int {
	r := c.preset.Runner
	switch {
	case r == nil || c.preset.Retired != "":
		return surplus
	case c.now.Sub(r.ShrunkAt) < time.Minute:
		return 0
	default:
		return surplus - surplus/2
	}
}

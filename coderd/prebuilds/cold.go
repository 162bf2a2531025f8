package prebuilds

import "time"

// coldBuilds says which of ws are on their way to (or ready for) claims that want a workspace built for them, each planned
// after the claim came. They are no part of the pool: what the pool has does not serve such a claim, and none of them is
// let go of in place of a surplus of the pool.
func (p *Preset) coldBuilds(ws []Workspace, now time.Time) map[int]bool {
	if len(p.Cold) == 0 || p.Retired != "" {
		return nil
	}
	taken := map[int]bool{}
	for _, since := range p.Cold { // the latest has the least choice, and comes first
		for i := range ws {
			w := &ws[i]
			if c := classify(p, w, now); c != classStarting && (c != classActual || w.State != Ready) {
				continue
			}
			if !taken[i] && !w.CreatedAt.Before(since) {
				taken[i] = true
				break
			}
		}
	}
	return taken
}

// surplus is by how many the pool has more than it should. Claims that want their own workspace are no reason to keep one
// that was planned before.
func (p *Preset) surplus(c Counts, ws []Workspace, now time.Time, renewal renewal) int {
	cold := 0
	if p.Retired == "" {
		cold = len(p.Cold)
	}
	has := c.Actual - len(renewal.gone) + c.Starting - len(p.coldBuilds(ws, now)) - p.atJobs(ws, now)
	return max(0, has-(p.wanted()-cold)-renewal.surge)
}

//go:build !race

package simulation

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// transition judges one row of history, of which those in seen came before it: the table of states, I2, I5 and I7.
func (m *model) transition(before state, seen []event, e event) {
	if !prebuilds.CanMove(prebuilds.State(e.from), prebuilds.State(e.to)) {
		m.w.violate("states", "a workspace went from %q to %q", e.from, e.to)
	}
	m.ever[e.workspace] = true
	was, known := before.workspaces[e.workspace]
	if known && e.from != "" && was.state != e.from && !chained(seen, e) {
		m.w.violate("states", "history says that a workspace left %s, which was %s", e.from, was.state)
	}
	if e.job.Valid && e.attempt != nil {
		j, ok := before.jobs[e.job.UUID]
		if !ok || j.attempt != *e.attempt || j.state != "running" {
			m.w.violate("I5", "%s -> %s was recorded by attempt %d of a job that is %s at attempt %d",
				e.from, e.to, *e.attempt, j.state, j.attempt)
		}
	}
	if e.from == "ready" && e.to == "claimed" && was.intent {
		m.w.fired("claim before an intent")
	}
	if e.to == "claimed" && e.actor == workspaces.ForgeJobs {
		m.w.fired("claimed by a job")
	}
	if e.from == "claimed" && e.to != "claimed" {
		m.released(before, e)
	}
}

// chained says whether a row of history follows another that was seen with it: of the same commit, as ready -> claimed does
// starting -> ready, or of a statement that waited for the row and went on as soon as that was free.
func chained(seen []event, e event) bool {
	for _, earlier := range slices.Backward(seen) {
		if earlier.workspace == e.workspace {
			return earlier.to == e.from
		}
	}
	return false
}

// released: only a person ends a claim, or Prewarm one that nobody was told of (I2, I7).
func (m *model) released(before state, e event) {
	over := life{e.workspace, e.incarnation}
	if e.to == "starting" { // recorded of the incarnation that begins
		over.incarnation--
	}
	lapsed := strings.HasPrefix(e.reason, "the lease of")
	if lapsed && e.actor == workspaces.Prewarm {
		m.lapsed(before, over)
	}
	for id, told := range m.w.people.told {
		if told.life != over || m.w.people.asked[over] {
			continue
		}
		m.w.violate("I2", "claim %s was told of its workspace, which left claimed though nobody asked: %s", short(id), e.reason)
	}
	if e.actor == workspaces.ForgeJobs {
		m.finished(e)
	}
	if e.actor == workspaces.Prewarm && !strings.HasPrefix(e.reason, "the client went away") && !lapsed {
		m.w.violate("I2", "Prewarm ended a claim: %s", e.reason)
	}
}

func short(id uuid.UUID) string { return id.String()[:8] }

// leasesHeld: a running job is given back or extended only by who holds it, unless its lease has ended (I5).
func (m *model) leasesHeld(c *call, before state) {
	for id, j := range m.now.jobs {
		old, ok := before.jobs[id]
		switch {
		case j.state == "running" && (!ok || old.attempt != j.attempt):
			m.leases[leaseKey{id, j.attempt}] = c.p
			if c.name != "LeaseJobs" {
				m.w.violate("I5", "%s leased a job", c.name)
			}
			m.withheld(c, before, j)
			if ok && old.state == "running" && old.due.After(m.w.now()) {
				m.w.violate("I5", "a job was leased whose lease runs for another %s", old.due.Sub(m.w.now()))
			}
		case ok && old.state == "running" && old.attempt == j.attempt && (j.state != old.state || !j.due.Equal(old.due)):
			holder := m.leases[leaseKey{id, j.attempt}]
			if holder != c.p && c.name != "ForceRetire" && c.name != "commit" {
				m.w.violate("I5", "%s of %s#%d touched a job that %s#%d holds", c.name, c.p.name, c.p.run, holder.name, holder.run)
			}
		}
	}
}

// withheld: while the breaker is open, nothing is created, reset or deleted at the provider but by force (S3), and what was
// claimed out of standby is started all the same.
func (m *model) withheld(c *call, before state, j job) {
	if !before.broken {
		return
	}
	switch {
	case (j.kind == "create" || j.kind == "reset" || j.kind == "delete") && !j.force:
		m.w.violate("S3", "%s of %s leased a %s job while the breaker is open", c.name, c.p.name, j.kind)
	case j.kind == "start":
		m.w.fired("start while the breaker is open")
	}
}

// claimsKept: what a client was told holds until it says otherwise (I7), and a workspace has one claim (I1).
func (m *model) claimsKept() {
	holders := map[leaseKey]uuid.UUID{}
	for id, c := range m.now.claims {
		if !c.workspace.Valid {
			continue
		}
		k := leaseKey{c.workspace.UUID, *c.incarnation}
		if other, twice := holders[k]; twice {
			m.w.violate("I1", "claims %s and %s have the same workspace", short(id), short(other))
		}
		holders[k] = id
		ws, live := m.now.workspaces[c.workspace.UUID]
		holds := live && ws.state == "claimed" && ws.incarnation == *c.incarnation && ws.claim.UUID == id
		if (c.state == "bound") != holds {
			m.w.violate("I1", "claim %s is %s, and its workspace is %s", short(id), c.state, ws.state)
		}
	}
	for _, ws := range m.now.workspaces {
		if ws.state == "claimed" && holders[leaseKey{ws.id, ws.incarnation}] != ws.claim.UUID {
			m.w.violate("I1", "a workspace is claimed by a claim that does not know of it")
		}
	}
	for id := range m.w.people.released {
		if c := m.now.claims[id]; c.state != "released" {
			m.w.violate("I7", "claim %s, whose release was confirmed, is %q", short(id), c.state)
		}
	}
	for id, told := range m.w.people.told {
		c, ok := m.now.claims[id]
		if m.w.people.asked[told.life] {
			continue
		}
		if !ok || c.state != "bound" || c.workspace.UUID != told.workspace {
			m.w.violate("I7", "claim %s, which its client was told of, is %q", short(id), c.state)
		}
	}
}

// capped: what a pass made is within what was wanted and within the maximum (I3).
func (m *model) capped(win *window, events []event) {
	planned := map[uuid.UUID]bool{}
	for _, e := range events {
		if e.from == "" || e.from == "quarantined" && (e.to == "starting" || e.to == "provisioning") ||
			e.from == "claimed" && e.to == "starting" {
			planned[m.now.workspaces[e.workspace].preset] = true
		}
	}
	if len(planned) == 0 {
		return
	}
	have := map[uuid.UUID]int{}
	soon := map[uuid.UUID]int{} // of these, ready and about to expire
	live := 0
	for _, ws := range m.now.workspaces {
		if !ws.gone { // what is known to be gone takes no place
			live++
		}
		p := m.now.presets[ws.preset]
		switch ws.state {
		case "provisioning", "starting", "ready", "standby":
			if ws.key == p.key && !ws.intent {
				have[ws.preset]++
				if win.returns && ws.expires != nil && !ws.expires.After(m.w.now()) {
					have[ws.preset]-- // to be replaced anyhow
				}
				// One that the pass saw in standby may have been started since.
				if ws.state != "provisioning" && ws.expires != nil && !win.at.Before(ws.expires.Add(-win.ahead[ws.preset])) {
					soon[ws.preset]++
				}
			}
		}
	}
	for id := range planned {
		limit := max(win.wanted[id], m.now.wanted(m.now.presets[id], m.w.now())) + min(soon[id], win.surge[id])
		if have[id] > limit {
			m.w.violate("I3", "%s has %d current prebuilds after a pass or return, and wanted %d at most", m.now.presets[id].name,
				have[id], limit)
		}
	}
	m.runnersCapped(planned)
	if !win.returns && win.maximum >= 0 && live > max(win.maximum, m.now.maximum) && m.now.maximum > 0 {
		m.w.violate("I3", "%d workspaces are live, and the maximum is %d", live, win.maximum)
	}
}

// resources: what the provider has is known (I4).
func (m *model) resources() {
	all, _ := m.w.cloud.All()
	for _, r := range all {
		if r.Tags.Installation != m.w.installation {
			continue
		}
		if !m.ever[r.Tags.WorkspaceID] && !m.w.planted(r.Name) {
			m.w.violate("I4", "the provider has %s, which the database never had", r.Name)
		}
	}
}

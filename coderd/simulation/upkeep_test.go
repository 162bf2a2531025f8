//go:build !race

package simulation

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
)

// upkeep gives some seeds templates whose workspaces are used again, keep failures, or follow a schedule.
func (w *world) upkeep(a, b *templateConfig) {
	d := w.random("upkeep")
	if d.IntN(2) == 0 {
		a.uses = 2 + d.IntN(2)
	}
	if d.IntN(3) == 0 {
		b.uses = 3
	}
	if d.IntN(2) == 0 {
		a.kept, b.kept = 1+d.IntN(2), d.IntN(2)
	}
	if d.IntN(4) == 0 { // the clock passes a minute while there are faults
		a.schedule = 1 + d.IntN(4)
		w.shift = (time.Duration(15+d.IntN(40)) * time.Second)
	}
}

// retryKept has a person try one that was kept for inspection: the one given, or the first if it is nil.
func (w *world) retryKept(p *process, which uuid.UUID) bool {
	for _, ws := range w.model.sortedWorkspaces() {
		if ws.state != "quarantined" || (which != uuid.Nil && ws.id != which) {
			continue
		}
		w.ask(p, func(ctx context.Context) error {
			moved, err := p.Writer.Retry(ctx, w.person("retried", 0), ws.id)
			if err == nil {
				p.Hints.Nudge(moved.TemplateID)
				p.Hints.WakeHere()
			}
			return err
		}, func(err error) {
			what := outcomeOf(err)
			if full := (*workspaces.NoRoom)(nil); errors.As(err, &full) {
				what = "no room"
			}
			w.note("%s answers a retry: %s", p.name, what)
			w.fired("retry of a kept failure: " + what)
		})
		return true
	}
	return false
}

// regretted: of most failures that are kept a person says at once that they are to be tried again, before a pass fills their
// place. At the end that is done once, with a create: what has a dead agent would be tried for ever, and everything must
// converge without a person.
func (m *model) regretted(events []event) {
	for _, e := range events {
		if e.to != "quarantined" || e.attempt == nil {
			continue
		}
		if m.w.calm {
			if m.w.regretted || e.from != "provisioning" {
				continue
			}
			m.w.regretted = true
		} else if m.w.dice("regret").IntN(4) == 0 {
			continue
		}
		m.w.regret = e.workspace
		m.w.slowPasses = time.Now().Add(time.Second)
	}
}

// again has the one that failed tried again, if it was not already.
func (w *world) again() bool {
	failed := w.regret
	w.regret = uuid.Nil
	p := w.any("again")
	if p == nil || !w.allowed("retry what is kept") || !w.retryKept(p, failed) {
		return false
	}
	w.note("* retry what is kept %s", p.name)
	w.fired("retry what is kept")
	return true
}

// keep has a person take one out of its pool to look into it, or keep one for longer that is in quarantine.
func (w *world) keep(p *process) bool {
	all := slices.DeleteFunc(w.model.sortedWorkspaces(), func(ws workspace) bool {
		return !slices.Contains([]string{"starting", "ready", "standby", "quarantined"}, ws.state) || w.model.nameOf(ws.id, w.model.now) == runnersOf
	})
	if len(all) == 0 {
		return false
	}
	d := w.dice("keep")
	ws := all[d.IntN(len(all))]
	w.ask(p, func(ctx context.Context) error {
		moved, err := p.Writer.Keep(ctx, w.person("kept", ws.incarnation), ws.id, time.Duration(5+d.IntN(20))*time.Second)
		if err == nil {
			p.Hints.Nudge(moved.TemplateID)
		}
		return err
	}, func(err error) { w.note("%s answers that it is kept: %s", p.name, outcomeOf(err)) })
	return true
}

// spoil has the provider refuse what it is to create for some seconds.
func (w *world) spoil() bool {
	w.spoiled = time.Now().Add(time.Duration(2000+w.dice("spoil").IntN(6000)) * time.Millisecond)
	return true
}

var _ provider.Resetter = cloud{}

// Reset replaces a resource by one that is like new, which nobody may do to one that is claimed (I2).
func (c cloud) Reset(ctx context.Context, req provider.CreateRequest) (provider.Instance, error) {
	return ask(ctx, c, "reset", req.Name, func(ctx context.Context) (provider.Instance, error) {
		before, _ := c.real.Get(ctx, provider.Ref{Name: req.Name, WorkspaceID: req.Tags.WorkspaceID})
		inst, err := c.real.Reset(ctx, req)
		w := c.p.w
		if ws := w.model.now.workspaces[req.Tags.WorkspaceID]; ws.state == "claimed" && err == nil && inst.ProviderID != before.ProviderID {
			w.violate("I2", "%s resets %s at the provider, which is claimed", c.p.name, req.Name)
		}
		if err == nil {
			w.made(req, inst)
		}
		return inst, err
	}, broken)
}

// What a transaction is about, where only its statements tell, and what must hold of it.

// purpose notes what a statement of a transaction says of all of it.
func (m *model) purpose(c *call, a answer) {
	switch {
	case (c.name == "LockIntent" || c.name == "LockMove") && len(a.rows) > 0:
		id, _ := c.args[0].(uuid.UUID)
		incarnation, _ := c.args[1].(int32)
		c.tx.intent = &life{id, incarnation}
	case c.name == "MarkReturn": // what comes back into a pool is judged like what a pass makes
		win := newWindow(m.w.now())
		win.returns = true
		m.passes[c.tx] = win
		win.widen(&m.now, win.at)
	}
}

// intended: what a pass decided of one incarnation is not done to another.
func (m *model) intended(of life, events []event) {
	for _, e := range events {
		if e.workspace == of.workspace && e.incarnation != of.incarnation {
			m.w.violate("I2", "an intent or move for incarnation %d of a workspace was carried out on incarnation %d", of.incarnation,
				e.incarnation)
		}
	}
}

// unrecorded: a workspace's row is written by transitions only, each of which has its row of history. What is written more
// often, as heartbeats are, hides it from claims, which pass over rows that are locked (DESIGN section 6). That one is gone, or
// is seen again, is written of those only that no claim takes.
func (m *model) unrecorded(c *call, before state, events []event) {
	moved := map[uuid.UUID]bool{}
	for _, e := range events {
		moved[e.workspace] = true
	}
	for id, ws := range m.now.workspaces {
		if was, ok := before.workspaces[id]; ok && was.written != ws.written && !moved[id] && was.gone == ws.gone {
			m.w.violate("claims", "%s of %s wrote the row of a workspace without a transition", c.name, c.p.name)
		}
	}
}

// quarantines: no more failures of a preset are kept than its template says.
func (m *model) quarantines(events []event) {
	for _, e := range events {
		if e.to != "quarantined" || m.special[e.workspace] {
			continue
		}
		id, n := m.now.workspaces[e.workspace].preset, 0
		for _, ws := range m.now.workspaces {
			if ws.preset == id && ws.state == "quarantined" && !m.special[ws.id] {
				n++
			}
		}
		if p := m.now.presets[id]; n > p.kept {
			m.w.violate("quarantine", "%d failures of %s are kept, and the most is %d", n, p.name, p.kept)
		}
	}
}

// scheduled notes that something was made while a schedule says how many there are to be.
func (m *model) scheduled(events []event) {
	for _, e := range events {
		p := m.now.presets[m.now.workspaces[e.workspace].preset]
		if e.from == "" && p.at(m.w.now()) != p.desired {
			m.w.fired("planned by a schedule")
		}
	}
}

// failed notes failures that end no job, which are rows of the table of states without a row of history.
func (m *model) failed(before state) {
	for id, j := range m.now.jobs {
		if old, ok := before.jobs[id]; !ok || j.failures <= old.failures {
			continue
		}
		switch j.kind {
		case "create":
			m.w.fired(row("provisioning", "provisioning", "create failed, retryable"))
		case "delete":
			m.w.fired(row("deleting", "deleting", "delete failed"))
		}
	}
}

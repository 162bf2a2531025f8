//go:build !race

package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/database"
)

// happening is something that people or accidents do. It says whether it could.
type happening struct {
	kind   string
	weight int
	do     func(w *world, p *process) bool
}

var happenings = []happening{
	{"claim", 30, func(w *world, p *process) bool {
		d := w.dice("claim")
		if _, ok := w.presetOf("a"); !ok || !w.anyReady() && d.IntN(4) > 0 {
			return false
		}
		wait := time.Duration(0)
		if d.IntN(2) == 0 {
			wait = time.Duration(d.IntN(8000)) * time.Millisecond
		}
		w.claim(p, []string{"a", "b"}[d.IntN(4)/3], wait, w.key(d.IntN(3) == 0))
		return true
	}},
	{"claim and give back", 6, func(w *world, p *process) bool {
		if _, ok := w.presetOf("a"); !ok || !w.anyReady() {
			return false
		}
		w.claimAnd(p, []string{"a", "b"}[w.dice("both").IntN(4)/3], 0, "", true)
		return true
	}},
	{"storm of claims", 9, func(w *world, p *process) bool {
		if _, ok := w.presetOf("a"); !ok || !w.anyReady() {
			return false
		}
		d := w.dice("storm")
		for range 3 + d.IntN(3) {
			w.claim(p, "a", time.Duration(d.IntN(2)*3000)*time.Millisecond, "")
		}
		return true
	}},
	{"claim again with a key", 5, func(w *world, p *process) bool {
		if w.people.claims == 0 {
			return false
		}
		w.claim(p, "a", 2*time.Second, fmt.Sprint("key-", 1+w.dice("again").IntN(w.people.claims)))
		return true
	}},
	{"release", 18, func(w *world, p *process) bool {
		held := w.held()
		if len(held) == 0 {
			return false
		}
		w.release(p, held[w.dice("release").IntN(len(held))])
		return true
	}},
	{"storm of releases", 4, func(w *world, p *process) bool {
		held := w.held()
		for _, t := range held {
			w.release(p, t)
		}
		return len(held) > 0
	}},
	{"client goes away", 3, func(w *world, _ *process) bool {
		waiting := w.people.clients.list()
		if len(waiting) == 0 {
			return false
		}
		waiting[w.dice("leave").IntN(len(waiting))].leave()
		return true
	}},
	{"new version", 5, func(w *world, p *process) bool { return w.change(p, func(t *templateConfig) { t.version++ }) }},
	{"scale", 5, func(w *world, p *process) bool {
		n := w.dice("scale").IntN(5)
		return w.change(p, func(t *templateConfig) { t.instances = n })
	}},
	{"change the tier", 3, func(w *world, p *process) bool { return w.retier(p) }},
	{"apply again", 3, func(w *world, p *process) bool { w.apply(p); return true }},
	{"maximum", 1, func(w *world, p *process) bool {
		w.people.config.maximum = []int{0, 4, 8}[w.dice("maximum").IntN(3)]
		w.apply(p)
		return true
	}},
	{"deprecate", 1, func(w *world, p *process) bool { w.retire(p, "a", (*templates.Service).Deprecate); return true }},
	{"undeprecate", 2, func(w *world, p *process) bool { w.retire(p, "a", (*templates.Service).Undeprecate); return true }},
	{"delete template", 1, func(w *world, p *process) bool { w.retire(p, "a", (*templates.Service).Delete); return true }},
	{"pause", 2, func(w *world, p *process) bool {
		w.pause(p, database.PauseScopeGlobal, "", true)
		return true
	}},
	{"pause of the provider", 1, func(w *world, p *process) bool {
		w.pause(p, database.PauseScopeProvider, "sim", true)
		return true
	}},
	{"resume", 2, func(w *world, p *process) bool { w.pause(p, database.PauseScopeGlobal, "", false); return true }},
	{"delete by hand", 3, func(w *world, p *process) bool {
		d := w.dice("by hand")
		list := w.model.sortedWorkspaces()
		if len(list) == 0 {
			return false
		}
		w.deleteByHand(p, list[d.IntN(len(list))], d.IntN(2) == 0)
		return true
	}},
	{"silent agent", 6, func(w *world, _ *process) bool { return w.silence() }},
	{"unhealthy agent", 3, func(w *world, _ *process) bool { return w.sicken() }},
	{"agent stutters", 4, func(w *world, _ *process) bool { return w.stutter() }},
	{"agent dies", 2, func(w *world, _ *process) bool { return w.kill() }},
	{"force what is going", 4, func(w *world, p *process) bool {
		list := slices.DeleteFunc(w.model.sortedWorkspaces(), func(ws workspace) bool {
			return ws.state != "draining" && ws.state != "deleting"
		})
		if len(list) == 0 {
			return false
		}
		if busy := slices.DeleteFunc(slices.Clone(list), func(ws workspace) bool { return !w.model.atWork(ws) }); len(busy) > 0 {
			list = busy
		}
		w.deleteByHand(p, list[w.dice("force").IntN(len(list))], true)
		return true
	}},
	{"claims before the workers", 5, func(w *world, p *process) bool { return w.outrun(p) }},
	{"keep to look into it", 4, func(w *world, p *process) bool { return w.keep(p) }},
	{"retry what is kept", 16, func(w *world, p *process) bool { return w.retryKept(p, uuid.Nil) }},
	{"deletes fail", 4, func(w *world, _ *process) bool {
		w.noDeletes = time.Now().Add(time.Duration(4000+w.dice("no deletes").IntN(12000)) * time.Millisecond)
		return true
	}},
	{"provider is spoiled", 5, func(w *world, _ *process) bool { return w.spoil() }},
	{"crash", 5, func(w *world, p *process) bool { w.crash(p); return true }},
	{"stop in order", 2, func(w *world, p *process) bool { w.shut(p); return true }},
	{"start", 10, func(w *world, _ *process) bool { return w.comeBack() }},
	{"freeze", 6, func(w *world, p *process) bool { w.freeze(p); return true }},
	{"listener reconnects", 3, func(w *world, p *process) bool {
		w.mail = slices.DeleteFunc(w.mail, func(l letter) bool { return l.to == p })
		p.missed()
		return true
	}},
	{"clock jumps", 2, func(w *world, _ *process) bool {
		by := time.Duration(w.dice("clock").IntN(14000)-4000) * time.Millisecond
		w.shift += by
		w.setBack = w.setBack || by < 0
		w.shift = w.shift.Truncate(time.Microsecond)
		return true
	}},
}

// happen lets something happen, and says whether it did.
func (w *world) happen() bool { return w.happenOf(happenings, "happening") }

func (w *world) happenOf(possible []happening, purpose string) bool {
	d := w.dice(purpose)
	total := 0
	for _, h := range possible {
		total += h.weight
	}
	roll := d.IntN(total)
	for _, h := range possible {
		if roll -= h.weight; roll >= 0 {
			continue
		}
		p := w.any("process")
		if p == nil && h.kind != "start" || !w.allowed(h.kind) {
			return false
		}
		if !h.do(w, p) {
			return false
		}
		w.note("* %s %s", h.kind, nameOfProcess(p))
		w.fired(h.kind)
		return true
	}
	return false
}

// accidents are those of the happenings that nobody does on purpose.
var accidents = []string{
	"silent agent", "unhealthy agent", "agent stutters", "agent dies", "deletes fail", "provider is spoiled", "crash", "freeze",
	"listener reconnects", "clock jumps", "client goes away", "resource vanishes", "resource stops", "resource breaks",
	"resource is not listed", "stray resource appears",
}

func allHappenings() []happening {
	return slices.Concat(happenings, jobsHappen, behindHappen, termsHappen)
}

func (w *world) anyReady() bool {
	for _, ws := range w.model.now.workspaces {
		if ws.state == "ready" || ws.state == "standby" {
			return true
		}
	}
	return false
}

func nameOfProcess(p *process) string {
	if p == nil {
		return ""
	}
	return p.name
}

func (w *world) key(wanted bool) string {
	if !wanted {
		return ""
	}
	w.people.claims++
	return fmt.Sprint("key-", w.people.claims)
}

// change changes one of the templates in the wanted configuration and applies all of it.
func (w *world) change(p *process, do func(*templateConfig)) bool {
	names := []string{"a", "a", "b"}
	if w.hub != nil {
		names = append(names, runnersOf)
	}
	name := names[w.dice("change").IntN(len(names))]
	t := w.people.config.templates[name]
	do(&t)
	w.people.config.templates[name] = t
	w.apply(p)
	return true
}

// crash ends a process where it is. What it has sent may still arrive.
func (w *world) crash(p *process) {
	p.dead = true
	for _, c := range slices.Clone(w.pending) {
		if c.p == p {
			c.give(reply{err: errLost})
			w.ghost(c)
		}
	}
	w.bury(p)
	p.stop()
}

// bury forgets a process that is no more. Its connections end with it, and so do the transactions on them.
func (w *world) bury(p *process) {
	p.dead = true
	w.mail = slices.DeleteFunc(w.mail, func(l letter) bool { return l.to == p })
	for _, c := range slices.Clone(w.pending) {
		if c.p == p {
			w.drop(c)
			c.give(reply{err: errLost})
		}
	}
	for _, t := range slices.Clone(w.model.open) {
		if t.p == p {
			w.lose(t)
		}
	}
}

// shut ends a process in order (G6).
func (w *world) shut(p *process) {
	p.stops = true
	p.stop()
}

// comeBack starts one of the replicas that are down.
func (w *world) comeBack() bool {
	for i := range 4 {
		name := fmt.Sprintf("r%d", i+1)
		if w.runs[name] > 0 && !slices.ContainsFunc(w.processes, func(p *process) bool { return p.name == name }) {
			w.start(name)
			return true
		}
	}
	return false
}

// freeze stops a process as SIGSTOP does. Half of the time it was receiving, so that the server's time-outs on its
// transaction do not fire.
func (w *world) freeze(p *process) {
	d := w.dice("freeze")
	p.frozen = true
	p.wakes = time.Now().Add(time.Duration(500+d.IntN(24000)) * time.Millisecond)
	for _, t := range w.model.open {
		if t.p == p {
			t.deaf = d.IntN(2) == 0
		}
	}
}

func (w *world) thaw(p *process) {
	w.note("%s wakes", p.name)
	w.fired("late wake")
	p.frozen, p.stunnedAt = false, nil
	for _, t := range w.model.open {
		if t.p == p {
			t.deaf = false
		}
	}
}

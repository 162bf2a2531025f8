//go:build !race

package simulation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// What is legal in the order of events but rare by chance: calls that wander for long and arrive at the worst moment,
// transactions that take their time, workers that are slow to carry out what passes decided.

// stray is a call that nobody waits for any more and that is still on its way.
type stray struct {
	c     *call
	until time.Time // when it arrives at the latest, on the bubble's clock
}

const (
	wanderCreate = 20 * time.Second // most that a create is on its way after its caller gave up
	wanderJob    = 12 * time.Second // the same of a statement about a job
)

// ghost is a call that nobody waits for any more. It may have been sent all the same.
func (w *world) ghost(c *call) {
	w.drop(c)
	d := w.dice(fmt.Sprint("ghost", c.seq))
	if c.mark == markProvider && c.name == "delete" || d.IntN(2) == 0 && !c.stunned || c.mark == markBegin {
		if c.tx != nil {
			w.lose(c.tx)
		}
		return
	}
	if !w.wander(c, d) {
		w.arrive(c)
	}
}

// wander keeps a late call on its way for a while: a create or reset, so that its workspace may be gone by then, and a
// statement about a job, until somebody else has it.
func (w *world) wander(c *call, d *rand.Rand) bool {
	if w.calm || w.over || !w.allowed("call wanders") {
		return false
	}
	until := time.Now()
	switch {
	case c.mark == markProvider && (c.name == "create" || c.name == "reset") && d.IntN(4) > 0:
		until = until.Add(time.Duration(d.Int64N(int64(wanderCreate))))
		w.discard(c, d)
	case c.mark == markQuery && c.tx == nil && w.model.isAboutJob(c):
		until = until.Add(time.Duration(d.Int64N(int64(wanderJob))))
	default:
		return false
	}
	w.fired("call wanders")
	w.note("%s %s is on its way", c.p.name, c.name)
	w.strays = append(w.strays, stray{c, until})
	return true
}

// discard has a person delete what is being made late, now and then.
func (w *world) discard(c *call, d *rand.Rand) {
	if d.IntN(3) > 0 || c.name != "create" {
		return
	}
	p := w.any("discard")
	list := w.model.sortedWorkspaces()
	i := slices.IndexFunc(list, func(ws workspace) bool { return ws.name == c.subject })
	if p != nil && i >= 0 {
		w.note("* what is made late is deleted by hand")
		w.deleteByHand(p, list[i], false)
	}
}

// arrivals of strays: at their time, or when it hurts most.
func (w *world) land() {
	for _, s := range slices.Clone(w.strays) {
		if s.c.p.frozen && !s.c.p.dead || time.Now().Before(s.until) && !w.model.anothers(s.c) {
			continue
		}
		if w.model.anothers(s.c) {
			w.fired("last word when another has the job")
		}
		w.strays = slices.DeleteFunc(w.strays, func(o stray) bool { return o.c == s.c })
		w.arrive(s.c)
	}
}

// arrive lets a late call take effect.
func (w *world) arrive(c *call) {
	w.fired("late call")
	w.note("%s %s comes late", c.p.name, c.name)
	switch c.mark {
	case markProvider:
		w.provide(c, fateGood)
	case markAnswer, markYield:
	default:
		w.execute(c, fateGood)
	}
	if c.tx != nil {
		w.lose(c.tx)
	}
}

// jobs are those that a statement names, of the ones under way.
func (m *model) jobs(c *call) []job {
	var list []job
	for _, arg := range c.args {
		switch v := arg.(type) {
		case uuid.UUID:
			if j, ok := m.now.jobs[v]; ok {
				list = append(list, j)
			}
		case []uuid.UUID:
			for _, id := range v {
				if j, ok := m.now.jobs[id]; ok {
					list = append(list, j)
				}
			}
		}
	}
	return list
}

func (m *model) isAboutJob(c *call) bool { return len(m.jobs(c)) > 0 }

// anothers says whether a statement is about a job that another process has by now.
func (m *model) anothers(c *call) bool {
	return c.mark == markQuery && slices.ContainsFunc(m.jobs(c), func(j job) bool {
		holder := m.leases[leaseKey{j.id, j.attempt}]
		return j.state == "running" && holder != nil && holder != c.p
	})
}

// lastWords are statements that end a job or put it back, which a worker must not do that has lost it; and one in how many
// is held up.
var lastWords = map[string]int{
	"DeferJob": 4, "RetryJob": 4, "ReturnJobs": 8, "WorkspaceCreated": 5, "WorkspaceReset": 20, "WorkspaceReady": 40,
	"WorkspaceFailed": 20, "WorkspaceDrained": 40, "WorkspaceGone": 40,
}

// stunned freezes a replica when it is about to end a job or put it back, now and then, and says whether it did.
func (w *world) stunned(c *call) bool {
	d := w.dice("stun")
	if w.calm || lastWords[c.name] == 0 || c.gaveUp || !c.p.up() || d.IntN(lastWords[c.name]) > 0 || !w.allowed("freeze") {
		return false
	}
	w.note("* freeze %s before %s", c.p.name, c.name)
	w.fired("freeze")
	w.freeze(c.p)
	// It wakes as soon as somebody else has the job, or when it is about to lose it.
	c.p.wakes, c.p.stunnedAt, c.stunned = time.Now().Add(lease*4/5+time.Duration(d.Int64N(int64(lease)))), c, true
	return true
}

// linger makes a transaction pause after a statement, with its locks.
func (w *world) linger(c *call) {
	if w.calm || c.mark != markQuery || !c.tx.wrote || !w.allowed("slow transaction") {
		return
	}
	often := 50
	if c.name == "ForceRetire" || c.name == "WorkspaceDraining" { // what others come to meanwhile
		often = 2
	}
	d := w.dice(fmt.Sprint("linger", c.seq))
	if d.IntN(often) > 0 {
		return
	}
	w.fired("slow transaction")
	c.tx.slow = time.Now().Add(time.Duration(100+d.IntN(1500)) * time.Millisecond)
}

// slowWork are statements with which workers take up intents.
var slowWork = map[string]bool{"DueIntents": true, "LockIntent": true, "DueMoves": true, "LockMove": true}

// waitsYet says whether a call is not to go on yet.
func (w *world) waitsYet(c *call) bool {
	now := time.Now()
	switch {
	case w.calm:
		return false
	case slowWork[c.name] && now.Before(w.slow), c.mark == markBegin && c.tx.iso == pgx.RepeatableRead && now.Before(w.slowPasses):
		return true
	}
	return c.tx != nil && now.Before(c.tx.slow)
}

// ambush is claims that come once a pass wants ready ones gone, and before the workers have heard.
type ambush struct {
	until  time.Time
	giveUp bool // and are given back as soon as they are answered
}

// outrun scales a pool down while workers are slow, and has claims come for what is to go.
func (w *world) outrun(p *process) bool {
	id, ok := w.presetOf("a")
	if !ok || w.ready(id, false) < 2 || time.Now().Before(w.slow) {
		return false
	}
	d := w.dice("outrun")
	w.slow = time.Now().Add(time.Duration(3000+d.IntN(5000)) * time.Millisecond)
	t := w.people.config.templates["a"]
	w.ambush = ambush{w.slow, t.uses > 1 || d.IntN(2) == 0}
	if t.uses > 1 { // what is given back is reset before the workers come to it
		w.slow = w.slow.Add(8 * time.Second)
	}
	t.instances = d.IntN(2)
	if w.ambush.giveUp { // there is room for one to come back
		t.instances = 1
	}
	t.schedule = 0
	w.people.config.templates["a"] = t
	w.apply(p)
	return true
}

// lurking says whether an ambush waits for its moment, in which nothing else happens.
func (w *world) lurking() bool { return time.Now().Before(w.ambush.until) }

// opening is what some seeds begin with, while the pools are still as they should be.
func (w *world) opening() {
	p := w.any("opening")
	d := w.random("opening")
	n := d.IntN(6)
	if n > 1 && n < 5 && w.people.config.templates["a"].uses > 1 {
		n = 0
	}
	switch n {
	case 0:
		if p != nil && w.allowed("claims before the workers") && w.outrun(p) {
			w.note("* claims before the workers %s", p.name)
			w.fired("claims before the workers")
		}
	case 1:
		if p != nil && w.allowed("provider is spoiled") && w.spoil() {
			w.note("* provider is spoiled")
			w.fired("provider is spoiled")
			w.change(p, func(t *templateConfig) { t.version++ })
		}
	}
}

// strike sends the claims of an ambush when there is something to claim that is to go.
func (w *world) strike() {
	if w.calm || !w.lurking() {
		return
	}
	id, ok := w.presetOf("a")
	if !ok || w.ready(id, true) == 0 {
		return
	}
	p := w.any("ambush")
	if p == nil {
		return
	}
	n := w.ready(id, false)
	w.note("* %d claims for what is to go", n)
	for range n {
		w.claimAnd(p, "a", 0, "", w.ambush.giveUp)
	}
	if w.ambush.giveUp { // before a pass fills its place
		w.slowPasses = time.Now().Add(2 * time.Second)
	}
	w.ambush = ambush{}
}

// ready counts those of a preset that are, all of them or only those that a pass wants gone.
func (w *world) ready(preset uuid.UUID, going bool) int {
	n := 0
	for _, ws := range w.model.now.workspaces {
		if ws.preset == preset && ws.state == "ready" && (ws.intent || !going) {
			n++
		}
	}
	return n
}

// atWork says whether somebody is at the job of a workspace just now.
func (m *model) atWork(ws workspace) bool {
	for _, j := range m.now.jobs {
		if j.workspace == ws.id && j.state == "running" {
			return true
		}
	}
	return false
}

//go:build !race

package simulation

import "time"

// mischief is what happens after all was well, alone: it has to be found and mended with nothing else going wrong.
var mischief = []happening{
	{"resource vanishes", 2, func(w *world, _ *process) bool {
		return w.back != nil && (w.dice("tier").IntN(2) == 0 && w.vanish("standby") || w.vanish("ready"))
	}},
	{"resource comes back", 1, func(w *world, _ *process) bool { return w.back != nil && w.comesBack() }},
	{"resource stops", 1, func(w *world, _ *process) bool { return w.back != nil && w.halt() }},
	{"resource breaks", 2, func(w *world, _ *process) bool { return w.back != nil && w.smash() }},
	{"resource is not listed", 3, func(w *world, _ *process) bool { return w.back != nil && w.hide() }},
	{"agent stutters", 1, func(w *world, _ *process) bool { return w.stutter() }},
	{"unhealthy agent", 1, func(w *world, _ *process) bool { return w.sicken() }},
	{"deletes fail", 1, func(w *world, p *process) bool {
		ws, ok := w.aReady("")
		if ok {
			w.noDeletes = time.Now().Add(40 * time.Second)
			w.deleteByHand(p, ws, false)
		}
		return ok
	}},
	{"provider is spoiled", 3, func(w *world, p *process) bool {
		ws, ok := w.aReady("a")
		if ok = ok && w.people.config.templates["a"].kept > 0; ok {
			w.spoiled = time.Now().Add(3 * time.Second)
			w.deleteByHand(p, ws, false)
		}
		return ok
	}},
	{"new version of runners", 2, func(w *world, p *process) bool {
		if w.hub == nil {
			return false
		}
		w.lastJobs = time.Now().Add(10 * time.Second)
		w.renewRunners(p)
		return true
	}},
}

// meddle has mischief happen, once or a few times: left is how often yet. It says whether any did.
func (w *world) meddle(left *int) bool {
	for ; *left > 0 && w.failure == nil; *left-- {
		w.step++
		if w.happenOf(mischief, "mischief") {
			*left--
			return true
		}
	}
	return false
}

// pieces is how often there is mischief in a seed.
func (w *world) pieces() int {
	n := w.random("pieces").IntN(3)
	if w.back != nil {
		n = 6
	}
	return n
}

// aReady is a workspace that is ready, of a template or of any but that of runners.
func (w *world) aReady(template string) (workspace, bool) {
	for _, ws := range w.model.sortedWorkspaces() {
		name := w.model.nameOf(ws.id, w.model.now)
		if ws.state == "ready" && name != runnersOf && (template == "" || name == template) {
			return ws, true
		}
	}
	return workspace{}, false
}

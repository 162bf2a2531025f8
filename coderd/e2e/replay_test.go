package e2e_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/prebuilds"
)

// replay goes through the journal commit by commit and judges each by the invariants. The population of a pool is its
// unclaimed workspaces of one pool key (and so of one version) that are being built or are ready, have no intent and
// are not expired. Wanted is desired plus waiting claims, 0 for a retired preset. What is exactly true of a population,
// and so can be checked without tolerance:
//
//   - It grows only by the inserts of passes, and the inserts of a pass are planned on its snapshot. So right after a
//     commit that inserts, the population is at most what the pass saw wanted; whatever else committed between its
//     snapshot and its commit can only have made it smaller. Two passes that create for the same deficit break this
//     (I3), and so does any that counts wrongly.
//   - Of those that expire soon, a pool may have as many more as a quarter of desired, and a pass that lets such a one go
//     may create for the next in the same commit (C9).
//   - Where it exceeds what is wanted now, wanted was lowered meanwhile: somebody applied a smaller number or another
//     version, or a waiting claim ended. Any other commit that widens the excess is a violation.
//   - Nobody lets go more of it as surplus than the pass saw in surplus (C6).
//   - Live workspaces never exceed their provider's maximum (I3, S4).
//
// And of each workspace: its moves are those of the state machine, it has exactly the job that its state calls for, at
// every commit, and no claim is ever replaced by another (I1).
type replay struct {
	world
	commits []commit
	seen    []map[uuid.UUID]view // by commit: what a pass saw of the presets it acted on
	stats   stats
	faults  []string
}

// stats say how much was checked.
type stats struct {
	commits, passes, stale  int // stale: passes during which others committed
	created, intents, moves int
	above                   int // commits that left more than is wanted by then
}

// view is one preset as one commit left it.
type view struct {
	key         uuid.UUID
	population  int
	least, most int // wanted: without and with the waiting claims whose deadline passed in between
}

// judge replays the journal and fails the test with all that is wrong.
func judge(t testing.TB, commits []commit) stats {
	t.Helper()
	r := &replay{world: newWorld(), commits: commits, seen: make([]map[uuid.UUID]view, len(commits))}
	viewers := map[int][]int{} // by the commit that they saw last
	for i, c := range commits {
		if c.frozen {
			viewers[c.saw] = append(viewers[c.saw], i)
		}
	}
	for i := -1; i < len(commits); i++ {
		if i >= 0 {
			r.commit(i)
		}
		for _, viewer := range viewers[i] {
			r.see(viewer)
		}
	}
	for i, fault := range r.faults {
		if i == 20 {
			t.Errorf("… and %d more", len(r.faults)-i)
			break
		}
		t.Error(fault)
	}
	return r.stats
}

func (r *replay) fault(i int, format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf("commit %d: ", r.commits[i].seq)+fmt.Sprintf(format, args...))
}

// see keeps how the presets that a pass will act on look in its snapshot, at its own time.
func (r *replay) see(viewer int) {
	c := r.commits[viewer]
	r.seen[viewer] = map[uuid.UUID]view{}
	for _, ch := range c.changes {
		switch {
		case ch.thing == "workspaces" && ch.was == nil:
			r.seen[viewer][ch.is.PresetID] = r.view(ch.is.PresetID, c.began, ch.at)
		case ch.thing == "intents" && ch.was == nil:
			if w, ok := r.workspaces[ch.is.WorkspaceID]; ok {
				r.seen[viewer][w.PresetID] = r.view(w.PresetID, c.began, ch.at)
			}
		}
	}
}

func (r *replay) commit(i int) {
	c := r.commits[i]
	touched := r.touched(c)
	before := map[uuid.UUID]int{}
	for id := range touched.presets {
		before[id] = r.excess(id, c.began)
	}
	for _, ch := range c.changes {
		r.checkMove(i, ch)
		r.apply(ch)
	}
	r.stats.commits++

	inserted := r.checkInserts(i)
	r.checkIntents(i)
	r.checkMaximum(i)
	for id := range touched.workspaces {
		r.checkJobs(i, id)
	}
	for id := range touched.presets {
		after := r.excess(id, c.began)
		if after > 0 {
			r.stats.above++
		}
		if after > before[id] && !touched.configuration && !touched.claims && inserted[id] == 0 {
			r.fault(i, "I3: %d more than wanted of preset %s, %d before, though nothing was created or configured",
				after, id, before[id])
		}
	}
}

// checkInserts: I3 for a pass that creates.
func (r *replay) checkInserts(i int) map[uuid.UUID]int {
	c := r.commits[i]
	inserted := map[uuid.UUID]int{}
	keys := map[uuid.UUID]uuid.UUID{}
	renewed := map[uuid.UUID]int{}
	for _, ch := range c.changes {
		if ch.thing == "workspaces" && ch.was == nil {
			inserted[ch.is.PresetID]++
			keys[ch.is.PresetID] = ch.is.PoolKey
		}
		if ch.thing == "intents" && ch.is != nil && strings.HasPrefix(ch.is.Reason, "C9: expires soon") {
			renewed[r.workspaces[ch.is.WorkspaceID].PresetID]++
		}
	}
	if len(inserted) == 0 {
		return inserted
	}
	if !c.frozen {
		r.fault(i, "C2: workspaces created by something else than a pass")
		return inserted
	}
	r.stats.passes++
	if c.saw < i-1 {
		r.stats.stale++
	}
	for preset, n := range inserted {
		saw := r.seen[i][preset]
		r.stats.created += n
		if keys[preset] != saw.key {
			r.fault(i, "C4: created for a pool of preset %s that is not the active one", preset)
		}
		if n > saw.most-saw.population+renewed[preset] {
			r.fault(i, "I3: %d created for preset %s, which had %d of %d", n, preset, saw.population, saw.most)
		}
		if now := r.population(preset, keys[preset], c.began); now > saw.most {
			r.fault(i, "I3: %d of preset %s right after a pass that saw %d, made %d and was to stop at %d: "+
				"another pass had created for the same deficit", now, preset, saw.population, n, saw.most)
		}
	}
	return inserted
}

// checkIntents: C6, and what is dropped is carried out or claimed.
func (r *replay) checkIntents(i int) {
	c := r.commits[i]
	surplus := map[uuid.UUID]int{}
	for _, ch := range c.changes {
		if ch.thing != "intents" {
			continue
		}
		if ch.is != nil {
			r.stats.intents++
			if w, ok := r.workspaces[ch.is.WorkspaceID]; ok && len(ch.is.Reason) > 2 && ch.is.Reason[:2] == "C6" {
				surplus[w.PresetID]++
			}
			continue
		}
		if w, ok := r.workspaces[ch.was.WorkspaceID]; ok && pooled[w.State] && w.Incarnation == ch.was.Incarnation {
			r.fault(i, "I3: the intent for workspace %s was dropped, and the workspace stays %s", w.ID, w.State)
		}
	}
	for preset, n := range surplus {
		if saw := r.seen[i][preset]; n > max(0, saw.population-saw.least) {
			r.fault(i, "C6: %d of preset %s let go as surplus, which had %d of %d", n, preset, saw.population, saw.least)
		}
	}
}

func (r *replay) checkMaximum(i int) {
	for name, p := range r.providers {
		if p.Maximum > 0 && r.live[name] > p.Maximum {
			r.fault(i, "I3: %d live workspaces at provider %s, whose maximum is %d", r.live[name], name, p.Maximum)
		}
	}
}

// checkMove: a workspace moves as the state machine says, and keeps its claim.
func (r *replay) checkMove(i int, ch change) {
	if ch.thing != "workspaces" || ch.is == nil {
		return
	}
	from := prebuilds.State("")
	if ch.was != nil {
		from = prebuilds.State(ch.was.State)
		if ch.was.ClaimID != uuid.Nil && ch.was.ClaimID != ch.is.ClaimID && ch.was.Incarnation == ch.is.Incarnation {
			r.fault(i, "I1: workspace %s went from claim %s to claim %s", ch.is.ID, ch.was.ClaimID, ch.is.ClaimID)
		}
	}
	to := prebuilds.State(ch.is.State)
	if from == to {
		return
	}
	r.stats.moves++
	if !prebuilds.CanMove(from, to) {
		r.fault(i, "workspace %s went from %q to %q", ch.is.ID, from, to)
	}
}

// jobOf is the job that a state calls for.
var jobOf = map[string]string{"provisioning": "create", "starting": "probe", "draining": "drain", "deleting": "delete"}

func (r *replay) checkJobs(i int, id uuid.UUID) {
	w, ok := r.workspaces[id]
	if !ok {
		return
	}
	var active []string
	for _, kind := range r.jobs[id] {
		active = append(active, kind)
	}
	want := jobOf[w.State]
	if want == "" && len(active) == 0 || len(active) == 1 && active[0] == want {
		return
	}
	r.fault(i, "workspace %s is %s and has the active jobs %v", id, w.State, active)
}

// touched is what a commit bears on.
type touched struct {
	presets, workspaces   map[uuid.UUID]bool
	configuration, claims bool // a person's apply; a waiter that came or went
}

func (r *replay) touched(c commit) touched {
	t := touched{presets: map[uuid.UUID]bool{}, workspaces: map[uuid.UUID]bool{}}
	for _, ch := range c.changes {
		row := ch.is
		if row == nil {
			row = ch.was
		}
		switch ch.thing {
		case "workspaces":
			t.workspaces[row.ID], t.presets[row.PresetID] = true, true
		case "jobs":
			t.workspaces[row.WorkspaceID] = true
		case "intents":
			t.workspaces[row.WorkspaceID] = true
		case "presets":
			t.presets[row.ID], t.configuration = true, true
		case "templates":
			t.configuration = true
		case "claims":
			t.presets[row.PresetID] = true
			t.claims = t.claims || ch.was != nil && ch.was.State == "waiting"
		}
	}
	return t
}

// excess is how many more than wanted there are of the active version.
func (r *replay) excess(preset uuid.UUID, now time.Time) int {
	v := r.view(preset, now, now)
	return max(0, v.population-v.most)
}

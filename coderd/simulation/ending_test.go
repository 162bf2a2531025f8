//go:build !race

package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
)

const (
	// convergeWithin is what I6 calls bounded, on the bubble's clock.
	convergeWithin = 6 * time.Minute
	// nudgeWithin is what a nudge may take where nothing goes wrong, tickWithin what a lost one may.
	nudgeWithin = time.Second
	tickWithin  = tick + tick/10 + 2*time.Second
)

// ending is the time after the faults: everything converges without a person (I6), a claim is made good for at once, and
// within a tick where its nudge was lost (I9), and a replica stops in order (G6).
func (w *world) ending() {
	w.calm = true
	w.note("faults are over")
	w.noDeletes, w.spoiled = time.Time{}, time.Time{}
	w.people.leave()
	for _, c := range w.hung {
		c.give(reply{err: errCloud})
	}
	for _, p := range w.processes {
		if p.frozen {
			w.thaw(p)
		}
	}
	left := 1 + w.random("left").IntN(4)/3 // one is enough, and takes fewer steps
	for _, p := range slices.Clone(w.processes) {
		if p.up() && left > 0 {
			left--
		} else {
			w.crash(p)
		}
	}
	if !slices.ContainsFunc(w.processes, (*process).up) {
		w.processes = nil
		w.comeBack()
	}
	for i := range w.strays { // what is on its way arrives soon
		if soon := time.Now().Add(3 * time.Second); w.strays[i].until.After(soon) {
			w.strays[i].until = soon
		}
	}
	for _, a := range w.agents {
		a.silent, a.sick = time.Time{}, false
	}
	w.wishes()
	pieces := w.pieces()
	for ok := w.converges(); ok && w.meddle(&pieces); ok = w.converges() {
		w.during(time.Second, func() bool { return false })
	}
	if w.failure != nil {
		return
	}
	for _, p := range w.model.sortedPresets() {
		w.note("converged: %s of %d, waiting %d, retired %t", p.name, p.desired, w.model.now.wanted(p, w.now())-p.at(w.now()), p.retired)
	}
	w.settled = true
	w.fired("converged")
	if w.people.config.maximum > 0 { // what nudges may spend of a maximum is what the last full pass left (S4)
		w.afterClaim(true, tickWithin)
	} else {
		w.afterClaim(true, nudgeWithin)
	}
	w.afterClaim(false, tickWithin)
	w.noticed()
	w.lastStop()
}

// converges waits until all is as it should be, while people say again what they want, and says whether it came to that (I6).
func (w *world) converges() bool {
	for from := time.Now(); !w.during(3*time.Second, func() bool { return w.unsettled() == "" }); w.wishes() {
		if w.failure == nil && time.Since(from) > convergeWithin { // before anything more is wished
			w.violate("I6", "after %s without faults: %s", time.Since(from).Round(time.Second), w.unsettled())
		}
		if w.failure != nil {
			return false
		}
	}
	return true
}

// during goes on until ok, or for so long, and says which.
func (w *world) during(d time.Duration, ok func() bool) bool {
	end := time.Now().Add(d)
	for w.failure == nil && time.Now().Before(end) {
		w.step++
		w.advance()
		if ok() {
			return true
		}
	}
	return false
}

// wishes is what people ask for at last, as often as it takes.
func (w *world) wishes() {
	p := w.any("wishes")
	if p == nil {
		w.comeBack()
		return
	}
	c := w.people.config.templates
	for _, ps := range w.model.sortedPresets() {
		t, ok := c[ps.name]
		if ok && ps.streak >= 3 && !ps.retired { // a hard limit is for a person, or a new version (C8)
			t.version++
			c[ps.name] = t
		}
	}
	a := c["a"]
	a.instances, a.ttl, a.schedule = max(1, a.instances), 0, 0
	a.most = 0            // so that a claim can be made without what follows one
	if a.running == "0" { // one that runs is claimed at last
		a.running = "1"
	}
	c["a"] = a
	room := 16 // for both pools, what failed and is kept, and the last two claims
	if w.hub != nil {
		w.keepIdle()
		room += hubMaximum
	}
	if w.people.config.maximum > 0 {
		w.people.config.maximum = max(w.people.config.maximum, room)
	}
	w.apply(p)
	w.retire(p, "a", (*templates.Service).Undeprecate)
	w.pause(p, database.PauseScopeGlobal, "", false)
	w.pause(p, database.PauseScopeProvider, "sim", false)
	for _, ws := range w.model.sortedWorkspaces() {
		if c, ok := w.model.now.claims[ws.claim.UUID]; ws.state == "claimed" && !(ok && c.forJob) {
			w.deleteByHand(p, ws, false)
		}
	}
}

// unsettled says what is not yet as it should be; nothing if all is.
func (w *world) unsettled() string {
	var why []string
	live := map[string]bool{}
	ready := map[uuid.UUID]int{}
	for _, ws := range w.model.sortedWorkspaces() {
		live[ws.name] = true
		if ws.state == "quarantined" { // kept for as long as its template says; there may be nothing of it
			continue
		}
		p := w.model.now.presets[ws.preset]
		if ws.state == "claimed" && w.settled {
			continue
		}
		if ws.state != "ready" && ws.state != "standby" || ws.key != p.key || ws.intent {
			why = append(why, fmt.Sprintf("%s has one %s", p.name, ws.state))
			continue
		}
		ready[ws.preset]++
	}
	why = append(why, w.tiersUnsettled()...)
	why = append(why, w.jobsLeft()...)
	names := map[string]int{}
	for _, p := range w.model.sortedPresets() {
		if !p.retired {
			names[p.name]++
		}
		if want := w.model.now.wanted(p, w.now()); ready[p.id] != want {
			why = append(why, fmt.Sprintf("%s has %d of %d ready", p.name, ready[p.id], want))
		}
	}
	for name := range w.people.config.templates {
		if names[name] != 1 {
			why = append(why, "there is no template "+name)
		}
	}
	for _, c := range w.model.now.claims {
		if c.deadline.After(w.now()) {
			why = append(why, "a claim waits")
		}
	}
	if len(w.strays) > 0 {
		why = append(why, "a late call is on its way")
	}
	if len(w.people.clients.list()) > 0 {
		why = append(why, "somebody waits for an answer")
	}
	all := w.ours()
	for _, r := range all {
		if !live[r.Name] && !(w.back != nil && w.back.stays(r.Name)) {
			why = append(why, "the provider has a resource of a deleted workspace")
		}
	}
	there := map[string]string{}
	for _, r := range all {
		there[r.Name] = r.ProviderID
		if w.back != nil && w.back.hides(r.ProviderID) {
			why = append(why, "a resource is not listed")
		}
	}
	for _, a := range w.agents {
		if state := w.model.now.workspaces[a.workspace].state; a.stutters && (state == "ready" || state == "starting") {
			why = append(why, "an agent falls silent again and again")
		}
	}
	for _, ws := range w.model.now.workspaces {
		id := there[ws.name]
		switch {
		case ws.state != "ready" && ws.state != "standby" && ws.state != "claimed":
		case id == "":
			why = append(why, "a resource is missing at the provider")
		case w.back != nil && w.back.broken[id]:
			why = append(why, "a resource is in error at the provider")
		}
	}
	if w.model.now.broken {
		why = append(why, "the breaker is open")
	}
	if now := time.Now(); now.Before(w.spoiled) || now.Before(w.noDeletes) {
		why = append(why, "the provider fails on purpose")
	}
	slices.Sort(why)
	return strings.Join(slices.Compact(why), ", ")
}

// afterClaim claims, with or without the nudge, and waits for the refill.
func (w *world) afterClaim(nudge bool, within time.Duration) {
	id, ok := w.presetOf("a")
	p := w.any("claim")
	if !ok || p == nil || w.failure != nil {
		return
	}
	planned := func() int {
		n := 0
		for _, ws := range w.model.now.workspaces {
			if ws.preset == id && ws.state != "claimed" && ws.state != "quarantined" && ws.state != "draining" && ws.state != "deleting" {
				n++
			}
		}
		return n
	}
	before := planned()
	claimed := func() bool { return planned() < before }
	if nudge {
		w.claim(p, "a", 0, "")
	} else { // as the process would whose nudge went nowhere
		claimID := uuid.Must(uuid.NewRandomFromReader(entropy{w.dice("claim id")}))
		go func() {
			_, _ = p.Writer.ClaimLast(context.Background(), workspaces.ClaimFor{
				ClaimID: claimID, PresetID: id, UserID: w.owner, Mode: database.ClaimModeRequire, Source: "sim",
			})
		}()
	}
	if !w.during(2*time.Second, claimed) {
		if w.failure == nil {
			w.violate("I6", "nothing could be claimed from a settled pool")
		}
		return
	}
	from := time.Now()
	if !w.during(within, func() bool { return planned() >= before }) && w.failure == nil {
		w.violate("I9", "%s after a claim (nudged: %t) its pool is not refilled", time.Since(from), nudge)
	}
	w.fired(fmt.Sprintf("refill, nudged: %t", nudge))
	if !w.during(time.Minute, func() bool { return w.unsettled() == "" }) && w.failure == nil {
		w.violate("I6", "a minute after a claim: %s", w.unsettled())
	}
}

// lastStop stops all that are left, in order, which has to come to an end (G6).
func (w *world) lastStop() {
	if w.failure != nil {
		return
	}
	for _, p := range w.processes {
		w.shut(p)
	}
	if !w.during(15*time.Second, func() bool { w.tidy(); return len(w.processes) == 0 }) && w.failure == nil {
		w.violate("G6", "a replica that was told to stop has not after 15 s")
	}
	synctest.Wait()
}

//go:build !race

package simulation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/inventory"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
)

// What somebody does at the provider behind the server's back, in one seed of four: resources vanish, others appear, and
// listings leave one out. Inventories follow each other in seconds there.

// back is what is known of it. Resources go by their name.
type back struct {
	strays  map[string]time.Time // with the installation's tags, of workspaces that no row has: when the provider made them
	atWork  []inventory.Span     // when replicas were at work, by the database's clock
	foreign map[string]time.Time // with another installation's tags
	broken  map[string]bool      // which the provider says are in error
	hidden  map[string]time.Time // from when on listings leave one out for a while
}

const behindTheBack = "behind the back"

var behindHappen = []happening{
	{"resource vanishes", 5, func(w *world, _ *process) bool { return w.vanish() }},
	{"resource stops", 2, func(w *world, _ *process) bool { return w.halt() }},
	{"resource breaks", 2, func(w *world, _ *process) bool { return w.smash() }},
	{"resource comes back", 1, func(w *world, _ *process) bool { return w.comesBack() }},
	{"resource is not listed", 2, func(w *world, _ *process) bool { return w.hide() }},
	{"stray resource appears", 2, func(w *world, _ *process) bool { return w.plant(w.installation, w.back.strays) }},
	{"foreign resource appears", 1, func(w *world, _ *process) bool {
		return w.plant(uuid.Must(uuid.NewRandomFromReader(entropy{w.dice("another's")})), w.back.foreign)
	}},
}

// turn decides whether this seed has a back.
func (w *world) turn() {
	d := w.random(behindTheBack)
	if d.IntN(number("PREWARM_SIM_BEHIND", 4)) > 0 || w.without[behindTheBack] {
		return
	}
	w.back = &back{
		strays: map[string]time.Time{}, foreign: map[string]time.Time{}, broken: map[string]bool{}, hidden: map[string]time.Time{},
	}
	w.people.config.inventories = "3s"
	w.pg.outside(func() { // also before the first configuration is there
		if _, err := w.pg.admin.Exec(context.Background(), "UPDATE providers SET inventory_every_s = 3"); err != nil {
			w.violate("simulation", "have inventories follow each other: %v", err)
		}
	})
	if d.IntN(2) == 0 { // two at a time open the breaker, which takes ten otherwise
		w.people.config.breaker = 2
	}
	w.fired(behindTheBack)
}

// hasten sets how often a replica with a back looks, in time for what it has lost to be noticed before the seed ends.
func (w *world) hasten(o *inventory.Options) {
	if w.back != nil {
		o.Every, o.Soon, o.Grace = 2*time.Second, 2*time.Second, 3*time.Second
	}
}

// victim is a resource of a workspace in one of these states, or in any; not of a runner.
func (w *world) victim(d *rand.Rand, states ...string) (sim.Resource, bool) {
	all := slices.DeleteFunc(w.ours(), func(r sim.Resource) bool {
		return w.planted(r.Name) || w.model.nameOf(r.Tags.WorkspaceID, w.model.now) == runnersOf ||
			len(states) > 0 && !slices.Contains(states, w.model.now.workspaces[r.Tags.WorkspaceID].state)
	})
	if len(all) == 0 {
		return sim.Resource{}, false
	}
	return all[d.IntN(len(all))], true
}

func refTo(r sim.Resource) provider.Ref {
	return provider.Ref{Name: r.Name, ProviderID: r.ProviderID, WorkspaceID: r.Tags.WorkspaceID}
}

// halt stops a resource that is to run.
func (w *world) halt() bool {
	r, ok := w.victim(w.dice("halt"), "ready")
	if !ok || w.cloud.Stop(context.Background(), refTo(r)) != nil {
		return false
	}
	if a, ok := w.agents[r.Tags.WorkspaceID]; ok {
		a.stopped = true
	}
	return true
}

// smash has the provider say from now on that a resource is in error, which only its listing tells.
func (w *world) smash() bool {
	r, ok := w.victim(w.dice("smash"), "standby")
	if !ok || w.dice("tier").IntN(2) == 0 {
		r, ok = w.victim(w.dice("smash"), "ready")
	}
	if ok {
		w.back.broken[r.ProviderID] = true
	}
	return ok
}

// hide has listings leave one out for so long that inventories agree on it. One with an agent falls silent before that, so
// that it is waited for meanwhile.
func (w *world) hide() bool {
	d := w.dice("hide")
	r, ok := w.victim(d, "ready")
	for range 4 {
		if _, there := w.agents[r.Tags.WorkspaceID]; ok && !there {
			r, ok = w.victim(d, "ready")
		}
	}
	if !ok {
		return false
	}
	from := time.Now()
	if a, there := w.agents[r.Tags.WorkspaceID]; there {
		from = from.Add(7 * time.Second) // by then it is missed
		a.silent = from.Add(18 * time.Second)
	}
	w.back.hidden[r.ProviderID] = from
	return true
}

// hides says whether listings leave one out now.
func (b *back) hides(providerID string) bool {
	from, ok := b.hidden[providerID]
	since := time.Since(from)
	return ok && since >= 0 && since < 18*time.Second
}

// comesBack has a resource of a deleted workspace appear again, as a create does that takes effect late.
func (w *world) comesBack() bool {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(w.model.names)) {
		id := w.model.names[name]
		if _, live := w.model.now.workspaces[id]; !live && w.model.ever[id] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return false
	}
	name := names[w.dice("comes back").IntN(len(names))]
	_, err := w.cloud.Create(context.Background(), provider.CreateRequest{Name: name, Tags: provider.Tags{
		Installation: w.installation, WorkspaceID: w.model.names[name], Incarnation: 1,
	}})
	return err == nil
}

// twisted is what a provider lists whose resources are broken or hidden.
func (w *world) twisted(list []provider.Instance) []provider.Instance {
	if w.back == nil {
		return list
	}
	for i := range list {
		if w.back.broken[list[i].ProviderID] {
			list[i].Status, list[i].Fault = provider.StatusError, "simulated hardware"
		}
	}
	return slices.DeleteFunc(list, func(i provider.Instance) bool { return w.back.hides(i.ProviderID) })
}

// noticed: of a claimed workspace that is missing at the provider people are told, and nothing else happens to it (S1).
func (w *world) noticed() {
	if w.back == nil || w.failure != nil || !w.vanish("claimed") {
		return
	}
	alarm := row("claimed", "claimed", "silent, unhealthy or missing")
	before := w.coverage[alarm]
	// The next inventory may be a minute away, and two more follow it soon.
	if !w.during(time.Minute, func() bool { return w.coverage[alarm] > before }) && w.failure == nil {
		w.violate("S1", "a minute after a claimed workspace was gone at its provider nobody was told")
	}
}

// vanish takes a resource away, of a workspace in one of these states or in any. Half of the time its agent lives on, as where only
// the provider has forgotten it.
func (w *world) vanish(states ...string) bool {
	d := w.dice("vanish")
	r, ok := w.victim(d, states...)
	if !ok || w.cloud.Delete(context.Background(), refTo(r)) != nil {
		return false
	}
	ws, live := w.model.now.workspaces[r.Tags.WorkspaceID]
	if live {
		w.fired("vanished: " + ws.state)
	}
	if a, ok := w.agents[r.Tags.WorkspaceID]; ok && d.IntN(2) == 0 {
		a.leave()
	}
	return true
}

// plant makes a resource that no replica asked for.
func (w *world) plant(installation uuid.UUID, among map[string]time.Time) bool {
	name := fmt.Sprintf("stray-%d", w.step)
	_, err := w.cloud.Create(context.Background(), provider.CreateRequest{Name: name, Tags: provider.Tags{
		Installation: installation, WorkspaceID: uuid.Must(uuid.NewRandomFromReader(entropy{w.dice("stray")})), Incarnation: 1,
	}})
	if err != nil {
		w.violate("model", "plant a resource: %v", err)
		return false
	}
	among[name] = time.Now()
	return true
}

// planted says whether a resource of the installation is a stray.
func (w *world) planted(name string) bool {
	if w.back == nil {
		return false
	}
	_, ok := w.back.strays[name]
	return ok
}

// worksOn is told that a replica says that it is at work. After a gap of a minute another time begins.
func (w *world) worksOn() {
	if w.back == nil {
		return
	}
	now, last := w.now(), len(w.back.atWork)-1
	if last < 0 || now.Sub(w.back.atWork[last].To) >= time.Minute {
		w.back.atWork = append(w.back.atWork, inventory.Span{From: now, To: now})
	} else if now.After(w.back.atWork[last].To) {
		w.back.atWork[last].To = now
	}
}

// mayGo says whether a stray was made while replicas were at work, and so must be deleted. One of another time can't be told
// from what a history made that this database does not have, and is left for people to look at.
func (b *back) mayGo(name string) bool {
	at := b.strays[name]
	return slices.ContainsFunc(b.atWork, func(t inventory.Span) bool { return !at.Before(t.From) && !at.After(t.To) })
}

// stays says whether a stray will be left alone for good: replicas have been at work since, but were not when it was made.
func (b *back) stays(name string) bool {
	at, ok := b.strays[name]
	return ok && !b.mayGo(name) && len(b.atWork) > 0 && at.Before(b.atWork[len(b.atWork)-1].To)
}

// ours is what the provider has of this installation, in the order of names.
func (w *world) ours() []sim.Resource {
	all, _ := w.cloud.All()
	all = slices.DeleteFunc(all, func(r sim.Resource) bool { return r.Tags.Installation != w.installation })
	slices.SortFunc(all, func(a, b sim.Resource) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// forgets says whether a listing is to leave one out.
func (w *world) forgets() bool {
	return w.back != nil && !w.calm && w.dice("forgets").IntN(8) == 0 && w.allowed("listing leaves one out")
}

// forgetful is the lie of a listing: one that is there is left out.
func (w *world) forgetful(list []provider.Instance) ([]provider.Instance, error) {
	if w.back == nil || len(list) == 0 {
		return nil, errCloud
	}
	slices.SortFunc(list, func(a, b provider.Instance) int { return cmp.Compare(a.Name, b.Name) })
	at := w.dice("left out").IntN(len(list))
	w.fired("listing leaves one out")
	return slices.Delete(list, at, at+1), nil
}

// untouched: what is another installation's is as it was (S6).
func (m *model) untouched() {
	if m.w.back == nil || len(m.w.back.foreign) == 0 {
		return
	}
	all, _ := m.w.cloud.All()
	for name := range m.w.back.foreign {
		if !slices.ContainsFunc(all, func(r sim.Resource) bool { return r.Name == name }) {
			m.w.violate("S6", "%s, which is another installation's, is gone", name)
		}
	}
}

// setAside notes which workspaces are in quarantine since they were missing at the provider, or since a person keeps them:
// they are none of the failures that a template keeps.
func (m *model) setAside(events []event) {
	for _, e := range events {
		if e.from == "quarantined" && e.to != "quarantined" {
			delete(m.special, e.workspace)
		}
		if e.to == "quarantined" && e.from != "quarantined" && e.attempt == nil {
			m.special[e.workspace] = true
		}
	}
}

package e2e_test

import (
	"time"

	"github.com/google/uuid"
)

// world is the database as some commit left it.
type world struct {
	providers  map[string]row
	templates  map[uuid.UUID]row
	presets    map[uuid.UUID]row
	workspaces map[uuid.UUID]row
	intents    map[uuid.UUID]row                  // by workspace
	waiting    map[uuid.UUID]map[uuid.UUID]row    // claims, by preset
	jobs       map[uuid.UUID]map[uuid.UUID]string // the active ones' kinds, by workspace
	pool       map[uuid.UUID]map[uuid.UUID]bool   // workspaces in a pooled state, by preset
	live       map[string]int                     // workspaces that are not deleted, by provider
}

// pooled are the states in which a workspace is its pool's, or on its way to be.
var pooled = map[string]bool{"provisioning": true, "starting": true, "ready": true, "standby": true}

func newWorld() world {
	return world{
		providers: map[string]row{}, templates: map[uuid.UUID]row{}, presets: map[uuid.UUID]row{},
		workspaces: map[uuid.UUID]row{}, intents: map[uuid.UUID]row{}, waiting: map[uuid.UUID]map[uuid.UUID]row{},
		jobs: map[uuid.UUID]map[uuid.UUID]string{}, pool: map[uuid.UUID]map[uuid.UUID]bool{}, live: map[string]int{},
	}
}

func (w *world) apply(ch change) {
	switch ch.thing {
	case "providers":
		put(w.providers, ch, func(r *row) string { return r.Name })
	case "templates":
		put(w.templates, ch, func(r *row) uuid.UUID { return r.ID })
	case "presets":
		put(w.presets, ch, func(r *row) uuid.UUID { return r.ID })
	case "intents":
		put(w.intents, ch, func(r *row) uuid.UUID { return r.WorkspaceID })
	case "workspaces":
		put(w.workspaces, ch, func(r *row) uuid.UUID { return r.ID })
		if ch.was != nil {
			delete(w.pool[ch.was.PresetID], ch.was.ID)
			if ch.was.State != "deleted" {
				w.live[ch.was.Provider]--
			}
		}
		if ch.is != nil {
			if pooled[ch.is.State] {
				within(w.pool, ch.is.PresetID)[ch.is.ID] = true
			}
			if ch.is.State != "deleted" {
				w.live[ch.is.Provider]++
			}
		}
	case "claims":
		if ch.was != nil {
			delete(w.waiting[ch.was.PresetID], ch.was.ID)
		}
		if ch.is != nil && ch.is.State == "waiting" {
			within(w.waiting, ch.is.PresetID)[ch.is.ID] = *ch.is
		}
	case "jobs":
		if ch.was != nil {
			delete(w.jobs[ch.was.WorkspaceID], ch.was.ID)
		}
		if ch.is != nil && (ch.is.State == "pending" || ch.is.State == "running") {
			within(w.jobs, ch.is.WorkspaceID)[ch.is.ID] = ch.is.Kind
		}
	}
}

func put[K comparable](m map[K]row, ch change, key func(*row) K) {
	if ch.is == nil {
		delete(m, key(ch.was))
		return
	}
	m[key(ch.is)] = *ch.is
}

func within[K, L comparable, V any](m map[K]map[L]V, key K) map[L]V {
	if m[key] == nil {
		m[key] = map[L]V{}
	}
	return m[key]
}

// view is a preset at the instant now. A waiting claim whose deadline is between now and later may or may not have been
// counted by who looked in between.
func (w *world) view(preset uuid.UUID, now, later time.Time) view {
	p := w.presets[preset]
	v := view{key: p.PoolKey, population: w.population(preset, p.PoolKey, now)}
	t := w.templates[p.TemplateID]
	if p.DeletedAt != nil || t.DeletedAt != nil || t.DeprecatedAt != nil { // C4
		return v
	}
	if p.Instances != nil {
		v.least, v.most = *p.Instances, *p.Instances
	}
	v.most += w.renewals(p, t, now, later)
	for _, c := range w.waiting[preset] {
		if c.DeadlineAt.After(now) {
			v.most++
		}
		if c.DeadlineAt.After(later) {
			v.least++
		}
	}
	return v
}

// renewals is how many more than desired a pool may have for those that expire soon (C9): a quarter. One that is on its
// way out is none any more.
func (w *world) renewals(p, t row, now, later time.Time) int {
	if p.Instances == nil || p.TTL == nil {
		return 0
	}
	ahead := min(time.Duration(*p.TTL)*time.Second/10, time.Duration(t.BootTimeout)*time.Second)
	soon := 0
	for id := range w.pool[p.ID] {
		if at := w.workspaces[id].ExpiresAt; at != nil && !at.Add(-ahead).After(later) && w.stays(id, now) {
			soon++
		}
	}
	return min(soon, (*p.Instances+3)/4)
}

// population counts the workspaces that a pool has or is about to have.
func (w *world) population(preset, key uuid.UUID, now time.Time) int {
	n := 0
	for id := range w.pool[preset] {
		if w.workspaces[id].PoolKey == key && w.stays(id, now) {
			n++
		}
	}
	return n
}

// stays says that a workspace has not expired and nobody wants it gone.
func (w *world) stays(id uuid.UUID, now time.Time) bool {
	ws := w.workspaces[id]
	intent, leaving := w.intents[id]
	return !(leaving && intent.Incarnation == ws.Incarnation) && (ws.ExpiresAt == nil || ws.ExpiresAt.After(now))
}

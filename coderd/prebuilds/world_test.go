package prebuilds

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// world is a model of everything around the planner: passes write plans, workers carry them out one step at a time,
// people claim and change things. Time is a number in it. What the model leaves out is providers that lie; what it has
// is every order of events.
type world struct {
	t       *rapid.T
	now     time.Time
	presets []*Preset
	// unclaimed workspaces; what is claimed or deleted leaves the list.
	workspaces []*Workspace
	claimed    map[string]int // by provider
	limits     map[string]Limits
	paused     string
	next       int // number of the next workspace or version
	created    int
}

func newWorld(t *rapid.T, presets int) *world {
	w := &world{t: t, now: noon, claimed: make(map[string]int), next: 1, limits: map[string]Limits{
		"sim":   {Maximum: rapid.IntRange(0, 12).Draw(t, "maximum"), Chunk: rapid.IntRange(1, 6).Draw(t, "chunk")},
		"local": {Chunk: 100},
	}}
	for n := range presets {
		p := newPool(rapid.IntRange(0, 4).Draw(t, "desired")).preset
		p.ID, p.Name, p.PoolKey = numbered(1000+n), fmt.Sprint("p", n), w.number()
		p.Provider = rapid.SampledFrom([]string{"sim", "local"}).Draw(t, "provider")
		shares := rapid.SampledFrom([]Share{"", "", "0", "1", "50%"})
		p.MaxSurge, p.MaxUnavailable = shares.Draw(t, "surge"), shares.Draw(t, "unavailable")
		p.CreatesInFlight, p.TemplateID = rapid.IntRange(0, 3).Draw(t, "in flight"), numbered(2000+n/2)
		p.TemplateCreatesInFlight = rapid.SampledFrom([]int{0, 2}).Draw(t, "in flight of the template")
		p.Running = rapid.SampledFrom([]Share{"", "0", "1", "50%"}).Draw(t, "running")
		p.Unproven, p.RolloutAt, p.ProgressDeadline = true, w.now, time.Minute
		w.presets = append(w.presets, &p)
	}
	return w
}

func (w *world) number() uuid.UUID {
	w.next++
	return numbered(w.next)
}

func (w *world) pick(label string) *Preset {
	return w.presets[rapid.IntRange(0, len(w.presets)-1).Draw(w.t, label)]
}

// of lists the unclaimed workspaces of a preset that match.
func (w *world) of(p *Preset, match func(*Workspace) bool) []*Workspace {
	var found []*Workspace
	for _, ws := range w.workspaces {
		if ws.PresetID == p.ID && match(ws) {
			found = append(found, ws)
		}
	}
	return found
}

// live counts what may have a resource at a provider.
func (w *world) live(provider string) int {
	n := w.claimed[provider]
	for _, ws := range w.workspaces {
		if ws.Provider == provider {
			n++
		}
	}
	return n
}

// pass is one transaction: snapshot, plans, rows. Every plan is judged, and so is what the pass leaves behind. It
// returns the earliest RetryAt.
func (w *world) pass() (retryAt time.Time) {
	s := Snapshot{Now: w.now, Providers: make(map[string]Limits)}
	if w.paused != "" {
		s.Pauses = Pauses{{Scope: PauseGlobal}: {Reason: w.paused}}
	}
	for name, l := range w.limits {
		l.Live = w.live(name)
		s.Providers[name] = l
	}
	for _, p := range w.presets {
		s.Presets = append(s.Presets, *p)
		if r := p.Runner; r != nil { // what the pass saw stays as it was
			seen := *r
			s.Presets[len(s.Presets)-1].Runner = &seen
		}
	}
	for _, ws := range w.workspaces {
		s.Workspaces = append(s.Workspaces, *ws)
	}
	groups := s.ByPreset()
	plans, errs, _ := s.Decide()
	require.Empty(w.t, errs)
	require.Len(w.t, plans, len(w.presets))
	for i, plan := range plans {
		p := s.Presets[i]
		if w.paused != "" {
			p.Pause = w.paused
		}
		require.Empty(w.t, Check(p, groups[p.ID], *plan, w.now), "%s\n%s", p.Name, plan)
		if at := plan.RetryAt; !at.IsZero() && (retryAt.IsZero() || at.Before(retryAt)) {
			retryAt = at
		}
		for _, intent := range plan.Intents {
			at := slices.IndexFunc(w.workspaces, func(ws *Workspace) bool { return ws.ID == intent.WorkspaceID })
			w.workspaces[at].HasIntent = true
		}
		for _, m := range plan.Moves {
			at := slices.IndexFunc(w.workspaces, func(ws *Workspace) bool { return ws.ID == m.WorkspaceID })
			w.workspaces[at].Moving = true
		}
		if _, shrinks := plan.Shrinks(w.now); shrinks {
			w.presets[i].Runner.ShrunkAt = w.now
		}
		for range plan.Create {
			w.created++
			w.workspaces = append(w.workspaces, &Workspace{
				ID: w.number(), PresetID: p.ID, PoolKey: p.PoolKey, Provider: p.Provider, State: Provisioning,
				Incarnation: 1, CreatedAt: w.now,
			})
		}
	}
	for name, l := range s.Providers {
		if l.Maximum > 0 {
			require.LessOrEqual(w.t, w.live(name), max(l.Maximum, l.Live), "I3: the pass went beyond the maximum of %s", name)
		}
	}
	return retryAt
}

// work takes one workspace one step on, and returns whether there was a step to take. A fault makes the step fail.
func (w *world) work(ws *Workspace, fault bool) bool {
	p := w.preset(ws)
	if ws.HasIntent && ws.State != Draining && ws.State != Deleting {
		switch {
		case ws.State == Provisioning && !ws.Leased:
			w.move(ws, Deleted)
		case ws.State == Provisioning:
			w.move(ws, Deleting)
		default:
			w.move(ws, Draining)
		}
		return true
	}
	if ws.Moving {
		ws.Moving = false
		if to := map[State]State{Ready: Standby, Standby: Starting}[ws.State]; to != "" {
			w.move(ws, to)
		}
		return true
	}
	switch ws.State {
	case Provisioning:
		switch {
		case !ws.Leased:
			ws.Leased = true
		case fault:
			w.fail(p, ws)
			w.move(ws, Deleting)
		default:
			w.move(ws, Starting)
		}
	case Starting:
		switch {
		case fault:
			w.fail(p, ws)
			w.move(ws, Draining)
		default:
			w.move(ws, Ready)
			if ws.PoolKey == p.PoolKey && !ws.WasReady {
				p.FailureStreak, p.Unproven = 0, false
			}
			ws.WasReady = true
			if p.Waiting > 0 && eligible(p, ws, w.now) {
				p.Waiting--
				w.claim(ws)
			}
		}
	case Draining:
		w.move(ws, Deleting)
	case Deleting:
		if !fault {
			w.move(ws, Deleted)
		}
	default:
		return false
	}
	return true
}

func (w *world) preset(ws *Workspace) *Preset {
	return w.presets[slices.IndexFunc(w.presets, func(p *Preset) bool { return p.ID == ws.PresetID })]
}

// fail counts a failed create, if it is of the version that is active now.
func (w *world) fail(p *Preset, ws *Workspace) {
	if ws.PoolKey == p.PoolKey {
		p.FailureStreak, p.LastFailureAt, p.LastFailure = p.FailureStreak+1, w.now, "out of luck"
	}
}

// move changes a state, as the table allows.
func (w *world) move(ws *Workspace, to State) {
	require.True(w.t, CanMove(ws.State, to), "%s to %s", ws.State, to)
	ws.State = to
	if !Unclaimed(to) {
		w.workspaces = slices.DeleteFunc(w.workspaces, func(other *Workspace) bool { return other == ws })
	}
}

func (w *world) claim(ws *Workspace) {
	w.claimed[ws.Provider]++
	w.move(ws, Claimed)
}

// ask is somebody's claim: the oldest eligible one, else they wait.
func (w *world) ask(p *Preset) {
	if p.Retired != "" {
		return
	}
	found := w.of(p, func(ws *Workspace) bool { return eligible(p, ws, w.now) })
	slices.SortStableFunc(found, func(a, b *Workspace) int { return cmp.Compare(b.worth(), a.worth()) }) // running ones first
	if len(found) == 0 {
		p.Waiting++
		return
	}
	w.claim(found[0])
}

// newVersion makes everything made so far outdated, with a clean record.
func (w *world) newVersion(p *Preset) {
	p.PoolKey = w.number()
	p.FailureStreak, p.LastFailureAt, p.LastFailure = 0, time.Time{}, ""
	p.Unproven, p.RolloutAt = true, w.now
}

// step lets a worker do something with a drawn workspace.
func (w *world) step(fault bool) {
	if n := len(w.workspaces); n > 0 {
		w.work(w.workspaces[rapid.IntRange(0, n-1).Draw(w.t, "workspace")], fault)
	}
}

// calm lets passes and workers run without faults until nothing changes any more. Time moves only when nothing else
// does, and straight to the RetryAt of a plan: what a plan does not ask to be looked at for must not be needed.
func (w *world) calm(rounds int) {
	for range rounds {
		retryAt, moved := w.pass(), false
		for _, ws := range slices.Clone(w.workspaces) {
			moved = w.work(ws, false) || moved
		}
		switch {
		case moved:
		case retryAt.IsZero():
			return
		default:
			w.now = retryAt
		}
	}
	require.Fail(w.t, "the world did not come to rest", "after %d rounds: %d workspaces", rounds, len(w.workspaces))
}

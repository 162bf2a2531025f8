//go:build !race

package simulation

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/prewarm-dev/prewarm/coderd/auth"
	"github.com/prewarm-dev/prewarm/coderd/claim"
	"github.com/prewarm-dev/prewarm/coderd/templates"
	"github.com/prewarm-dev/prewarm/coderd/workspaces"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/apidb"
	"github.com/prewarm-dev/prewarm/database/viewsdb"
)

// people are the clients: what they want, what they were told, and what they asked for.
type people struct {
	config   config
	told     map[uuid.UUID]told // claims whose answer reached their client
	byKey    map[string]told
	asked    map[life]bool      // that somebody asked to be released or deleted
	released map[uuid.UUID]bool // claims whose release was acknowledged
	clients  *clients
	requests int                  // how many there were
	agents   []context.CancelFunc // of those that ever lived
	claims   int
}

type told struct {
	claim uuid.UUID
	life
}

// life is one incarnation of a workspace.
type life struct {
	workspace   uuid.UUID
	incarnation int32
}

// client is one that waits for an answer.
type client struct{ leave context.CancelFunc }

// clients are those that wait. Each takes itself out on its own goroutine, and when several are let go at once, at once.
type clients struct {
	mu  sync.Mutex
	all []*client
}

func (c *clients) add(one *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, one)
}

func (c *clients) remove(one *client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = slices.DeleteFunc(c.all, func(o *client) bool { return o == one })
}

// list is who waits now, in the order in which they came.
func (c *clients) list() []*client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// config is what people want of the templates.
type config struct {
	maximum     int
	inFlight    int    // creates
	inventories string // how often; empty: the default
	breaker     int    // discrepancies that open it; 0: the default
	templates   map[string]templateConfig
}

type templateConfig struct {
	version, instances int
	keep, agent        bool
	ttl                time.Duration
	uses               int    // of each workspace; more than 1: it is used again
	kept               int    // most failures that are kept for inspection
	schedule           int    // instances in even minutes; 0: no schedule
	running            string // how many of them run, empty for all; the others are in standby
	runner             bool   // they are runners of the forge
	most               int    // claims at once; 0: any number
}

func (c config) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "providers:\n  - {name: sim, kind: sim, maximum: %d, creates_in_flight: %d", c.maximum, c.inFlight)
	if c.inventories != "" {
		fmt.Fprintf(&b, ", inventory_every: %s", c.inventories)
	}
	if c.breaker > 0 {
		fmt.Fprintf(&b, ", breaker: {count: %d}", c.breaker)
	}
	b.WriteString("}\ntemplates:\n")
	for _, name := range slices.Sorted(maps.Keys(c.templates)) {
		t := c.templates[name]
		fmt.Fprintf(&b, "  - name: %s\n    provider: sim\n    boot_timeout: 20s\n    keep_outdated: %t\n", name, t.keep)
		fmt.Fprintf(&b, "    spec: {ready_latency: 0s-3s%dns}\n", t.version)
		if t.uses > 1 {
			fmt.Fprintf(&b, "    reuse: true\n    max_uses: %d\n", t.uses)
		}
		if t.kept > 0 {
			fmt.Fprintf(&b, "    keep_failures: {maximum: %d, ttl: 15s}\n", t.kept)
		}
		if t.most > 0 {
			fmt.Fprintf(&b, "    claims: {maximum: %d}\n", max(t.most, t.instances, t.schedule)) // less is refused
		}
		if t.agent {
			b.WriteString("    agent: {heartbeat_timeout: 5s}\n")
		}
		fmt.Fprintf(&b, "    presets:\n      - name: default\n        prebuilds: {instances: %d", t.instances)
		if t.ttl > 0 {
			fmt.Fprintf(&b, ", ttl: %s", t.ttl)
		}
		b.WriteString(t.standbyYAML())
		if t.schedule > 0 {
			fmt.Fprintf(&b, ", schedule: {ranges: [{cron: \"*/2 * * * *\", instances: %d}]}", t.schedule)
		}
		b.WriteString("}\n")
		if t.runner {
			fmt.Fprintf(&b, "        runner: {forge: %s, labels: [linux, x64], maximum: %d, registration_timeout: 20s}\n", hubEntity, hubMaximum)
		}
	}
	return b.String()
}

// furnish makes the first configuration wanted.
func (w *world) furnish() {
	d := w.random("furnish")
	w.people = people{
		told: map[uuid.UUID]told{}, byKey: map[string]told{}, asked: map[life]bool{},
		released: map[uuid.UUID]bool{}, clients: &clients{},
		config: config{maximum: []int{0, 7, 10}[d.IntN(3)], inFlight: []int{1, 16}[d.IntN(2)], templates: map[string]templateConfig{
			"a": {version: 1, instances: 2 + d.IntN(3), keep: d.IntN(3) == 0},
			"b": {version: 1, instances: 1 + d.IntN(2), agent: true},
		}},
	}
	a, b := w.people.config.templates["a"], w.people.config.templates["b"]
	if d.IntN(3) == 0 {
		a.ttl = 15 * time.Second
	}
	w.upkeep(&a, &b)
	w.tiers(&a, &b)
	w.agree(&a)
	w.people.config.templates["a"], w.people.config.templates["b"] = a, b
	w.connect()
	w.turn()
}

func (p *people) leave() {
	for _, c := range p.clients.list() {
		c.leave()
	}
}

func (p *people) end() {
	p.leave()
	for _, leave := range p.agents {
		leave()
	}
}

// any gives one of the processes that answer.
func (w *world) any(purpose string) *process {
	var up []*process
	for _, p := range w.processes {
		if p.up() {
			up = append(up, p)
		}
	}
	if len(up) == 0 {
		return nil
	}
	return up[w.dice(purpose).IntN(len(up))]
}

// requestKey is where a context has the number of the request that it belongs to, for what else looks the same.
type requestKey struct{}

// ask is a request to a process, on a goroutine of its own. answered runs on the scheduler when the answer has reached
// the client, which it does not if the process is gone by then, or the client.
func (w *world) ask(p *process, do func(ctx context.Context) error, answered func(err error)) *client {
	w.people.requests++
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), requestKey{}, w.people.requests))
	c := &client{leave: cancel}
	w.people.clients.add(c)
	go func() {
		defer cancel()
		err := do(ctx)
		p.submit(&call{ctx: ctx, name: "answer", mark: markAnswer, act: func(fate) (any, error) {
			answered(err)
			return nil, nil
		}})
		w.people.clients.remove(c)
	}()
	return c
}

func (w *world) by() auth.Identity {
	return auth.Identity{
		Principal:  auth.Principal{UserID: w.owner, User: "owner"},
		Membership: auth.Membership{OrganizationID: auth.DefaultOrganizationID, Organization: "default", Role: database.RoleOwner},
	}
}

// apply sends the configuration that people want now, again and again until somebody confirms it.
func (w *world) apply(p *process) {
	yaml := w.people.config.yaml()
	var res templates.Result
	w.ask(p, func(ctx context.Context) (err error) {
		res, err = p.Templates.Apply(ctx, templates.Request{By: w.by(), File: "sim.yaml", Source: yaml})
		if err == nil {
			p.Hints.Nudge(res.Templates...)
			p.Hints.DemandChanged()
		}
		return err
	}, func(err error) {
		w.note("apply: %s", outcomeOf(err))
		if err != nil && strings.Contains(err.Error(), "sim.yaml") {
			w.violate("simulation", "its configuration is refused: %v", err)
		}
	})
}

func (w *world) presetOf(template string) (uuid.UUID, bool) {
	for _, p := range w.model.sortedPresets() {
		if p.name == template && !p.retired {
			return p.id, true
		}
	}
	return uuid.Nil, false
}

func (m *model) sortedPresets() []preset {
	return slices.SortedFunc(maps.Values(m.now.presets), func(a, b preset) int { return cmp.Compare(a.id.String(), b.id.String()) })
}

// claim is one client that wants a workspace.
func (w *world) claim(p *process, template string, wait time.Duration, key string) {
	w.claimAnd(p, template, wait, key, false)
}

// claimAnd is one that gives back at once what it got, if it has no more use for it.
func (w *world) claimAnd(p *process, template string, wait time.Duration, key string, giveBack bool) {
	id, ok := w.presetOf(template)
	if !ok {
		return
	}
	req := claim.Request{
		UserID: w.owner, Source: "sim", OrganizationID: auth.DefaultOrganizationID, PresetID: id,
		Mode: database.ClaimModePrefer, Wait: wait, Key: key,
	}
	if wait == 0 {
		req.Mode = database.ClaimModeRequire
	}
	lookout := w.model.watch(id)
	var res claim.Result
	w.ask(p, func(ctx context.Context) (err error) {
		res, err = p.Claims.Claim(ctx, req)
		return err
	}, func(err error) {
		outcome := string(res.Outcome)
		if err != nil {
			outcome = "error"
		}
		w.note("%s answers a claim: %s", p.name, outcome)
		w.fired("claim " + outcome)
		delete(w.model.lookouts, lookout)
		switch {
		case err != nil:
		case res.Workspace != nil:
			t := w.hold(res, key)
			if next := w.any("give back"); giveBack && next != nil && !w.people.asked[t.life] {
				w.release(next, t)
			}
		case wait == 0:
			w.model.missed(lookout, key)
		}
	})
}

// hold is a client that was told of its workspace.
func (w *world) hold(res claim.Result, key string) told {
	t := told{res.ClaimID, life{res.Workspace.ID, res.Workspace.Incarnation}}
	for id, other := range w.people.told {
		if id != t.claim && other.life == t.life {
			w.violate("I1", "claims %s and %s were told of the same workspace", short(id), short(t.claim))
		}
	}
	if before, ok := w.people.byKey[key]; ok && key != "" && before != t && !w.people.asked[before.life] {
		w.violate("I7", "key %s was given another workspace than before", key)
	}
	if key != "" {
		w.people.byKey[key] = t
	}
	w.people.told[t.claim] = t
	return t
}

// held are the claims that clients know of and did not give back yet, in a stable order.
func (w *world) held() []told {
	list := slices.Collect(maps.Values(w.people.told))
	list = slices.DeleteFunc(list, func(t told) bool { return w.people.asked[t.life] })
	slices.SortFunc(list, func(a, b told) int { return cmp.Compare(a.claim.String(), b.claim.String()) })
	return list
}

func (w *world) release(p *process, t told) {
	w.people.asked[t.life] = true
	w.ask(p, func(ctx context.Context) error {
		moved, err := p.Writer.Release(ctx, w.person("released", t.incarnation), t.workspace)
		if err == nil {
			p.Hints.Nudge(moved.TemplateID)
			p.Hints.WakeHere()
		}
		return err
	}, func(err error) {
		w.note("%s answers a release: %s", p.name, outcomeOf(err))
		if err == nil {
			w.people.released[t.claim] = true
		}
	})
}

// person is who means one incarnation of a workspace.
func (w *world) person(reason string, incarnation int32) workspaces.Actor {
	return workspaces.Actor{UserID: w.owner, Source: "sim", Reason: reason, Incarnation: incarnation}
}

func (w *world) deleteByHand(p *process, ws workspace, force bool) {
	w.people.asked[life{ws.id, ws.incarnation}] = true
	w.ask(p, func(ctx context.Context) error {
		if goes, err := p.letRunnerGo(ctx, ws); err != nil || !goes {
			return err
		}
		moved, err := p.Writer.Delete(ctx, w.person("deleted by hand", ws.incarnation), ws.id, force)
		if err == nil {
			p.Hints.Nudge(moved.TemplateID)
			p.Hints.WakeHere()
		}
		return err
	}, func(err error) { w.note("%s answers a deletion: %s", p.name, outcomeOf(err)) })
}

// deprecate, undeprecate and delete a template.
func (w *world) retire(p *process, name string, do func(*templates.Service, context.Context, auth.Identity, string) (uuid.UUID, error)) {
	w.ask(p, func(ctx context.Context) error {
		id, err := do(p.Templates, ctx, w.by(), name)
		if err == nil && id != uuid.Nil {
			p.Hints.Nudge(id)
		}
		return err
	}, func(err error) { w.note("%s answers a change of a template: %s", p.name, outcomeOf(err)) })
}

// pause or resume everything, or the provider.
func (w *world) pause(p *process, scope database.PauseScope, target string, on bool) {
	d := w.dice("pause")
	id := uuid.Must(uuid.NewRandomFromReader(entropy{d}))
	w.ask(p, func(ctx context.Context) error {
		if on {
			end := float64(3 + d.IntN(10))
			_, err := apidb.New(p.store).UpsertPause(ctx, apidb.UpsertPauseParams{
				ID: id, Scope: scope, Target: target, Reason: "simulation", CreatedBy: w.owner, ExpiresInS: &end,
			})
			return err
		}
		if _, err := apidb.New(p.store).DeletePause(ctx, apidb.DeletePauseParams{Scope: scope, Target: target}); err != nil {
			return err
		}
		affected, err := viewsdb.New(p.store).TemplatesInScope(ctx, viewsdb.TemplatesInScopeParams{Scope: scope, Target: target})
		p.Hints.Nudge(affected...)
		return err
	}, func(err error) { w.note("%s answers a pause: %s", p.name, outcomeOf(err)) })
}

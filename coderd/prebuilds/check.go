package prebuilds

import (
	"time"

	"github.com/google/uuid"
	"golang.org/x/xerrors"
)

// Check judges a plan by the invariants, whoever made it, and returns each violation; none if the plan is safe. It is
// written from the rules and shares nothing with the planner, so that a mistake there is not repeated here. Tests and
// the simulation call it on every plan, before or after Clamp.
func Check(p Preset, ws []Workspace, plan Plan, now time.Time) []error {
	p = p.at(now) // that a schedule says the right number is for its own tests
	c := checker{
		preset: p, plan: plan, now: now,
		byID: make(map[uuid.UUID]Workspace, len(ws)), gone: make(map[uuid.UUID]bool, len(plan.Intents)),
		rules: make(map[uuid.UUID]string, len(plan.Intents)),
	}
	for _, w := range ws {
		if _, twice := c.byID[w.ID]; twice {
			c.fail("workspace %s is there twice", w.ID)
		}
		c.byID[w.ID] = w
	}
	if plan.PresetID != p.ID {
		c.fail("plan is of preset %s, not of %s", plan.PresetID, p.ID)
	}
	c.counts(ws)
	c.intents()
	c.creates(ws)
	c.runners(ws)
	c.victims(ws)
	c.oldestFirst(ws)
	c.availability(ws)
	c.moves(ws)
	c.ledger()
	if !plan.RetryAt.IsZero() && !plan.RetryAt.After(now) {
		c.fail("retry at %s is not in the future", Instant(plan.RetryAt))
	}
	return c.errs
}

type checker struct {
	preset Preset
	plan   Plan
	now    time.Time
	byID   map[uuid.UUID]Workspace
	gone   map[uuid.UUID]bool // with an intent of this plan
	rules  map[uuid.UUID]string
	errs   []error
}

func (c *checker) fail(format string, args ...any) {
	c.errs = append(c.errs, xerrors.Errorf(format, args...))
}

// still says that nothing may go.
func (c *checker) still() bool { return c.preset.Pause != "" || c.preset.Breaker != "" }

// active says whether w is one that the preset has: unclaimed, of the active version, not expired and not on its way
// out before this plan.
func (c *checker) active(w Workspace) bool {
	building := w.State == Provisioning || w.State == Starting
	return (building || c.built(w)) && w.PoolKey == c.preset.PoolKey && c.alive(w) && !w.HasIntent
}

func (*checker) built(w Workspace) bool { return w.State == Ready || w.State == Standby }

func (c *checker) alive(w Workspace) bool { return w.ExpiresAt.IsZero() || w.ExpiresAt.After(c.now) }

// counts: C3. The classes are a partition, so every workspace is in one of them and in no other.
func (c *checker) counts(ws []Workspace) {
	n := c.plan.Counts
	classes := []int{n.Deleting, n.Stopping, n.Quarantined, n.Outdated, n.Expired, n.Starting, n.Actual}
	sum := 0
	for _, m := range classes {
		sum += m
		if m < 0 {
			c.fail("a count is negative: %+v", n)
		}
	}
	if sum != len(ws) {
		c.fail("C3: the counts %+v add up to %d of %d workspaces", n, sum, len(ws))
	}
	active, ready, eligible := 0, 0, 0
	for _, w := range ws {
		if c.active(w) {
			active++
			if c.built(w) {
				ready++
			}
		}
		current := w.PoolKey == c.preset.PoolKey || c.preset.KeepOutdated
		if c.built(w) && current && c.alive(w) && c.preset.Retired == "" {
			eligible++
		}
	}
	if n.Actual != ready || n.Starting != active-ready {
		c.fail("C3: actual %d and starting %d, but there are %d and %d", n.Actual, n.Starting, ready, active-ready)
	}
	if n.Eligible != eligible {
		c.fail("C3: eligible %d, but a claim could take %d", n.Eligible, eligible)
	}
}

// intents: I2. Only unclaimed workspaces are let go, each once, and each as what it is.
func (c *checker) intents() {
	if c.preset.Pause != "" && len(c.plan.Intents) > 0 {
		c.fail("C10: %d intents while paused", len(c.plan.Intents))
	}
	if c.preset.Breaker != "" && len(c.plan.Intents) > 0 {
		c.fail("S3: %d intents while the breaker is open", len(c.plan.Intents))
	}
	for _, i := range c.plan.Intents {
		w, known := c.byID[i.WorkspaceID]
		switch {
		case !known:
			c.fail("I2: intent for workspace %s, which is not the preset's", i.WorkspaceID)
			continue
		case c.gone[i.WorkspaceID]:
			c.fail("I2: two intents for workspace %s", i.WorkspaceID)
		case w.HasIntent:
			c.fail("I2: workspace %s already has an intent", i.WorkspaceID)
		case w.Incarnation != i.Incarnation:
			c.fail("I2: intent for incarnation %d of workspace %s, which is at %d", i.Incarnation, w.ID, w.Incarnation)
		}
		switch w.State {
		case Provisioning, Starting, Ready, Standby:
		default:
			c.fail("I2: intent for workspace %s in state %s", w.ID, w.State)
		}
		if (i.Kind == Cancel) != (w.State == Provisioning) {
			c.fail("C11: intent of kind %s for workspace %s in state %s", i.Kind, w.ID, w.State)
		}
		if i.Code == "" || i.Rule == "" {
			c.fail("intent for workspace %s has no reason", w.ID)
		}
		c.gone[i.WorkspaceID], c.rules[i.WorkspaceID] = true, i.Rule
	}
}

// creates: I3. What is there and what is created never exceed what is wanted.
func (c *checker) creates(ws []Workspace) {
	has := 0
	for _, w := range ws {
		if c.active(w) && (len(c.preset.Cold) == 0 || !c.gone[w.ID]) { // what goes makes room for those built for claims
			has++
		}
	}
	n := c.plan.Create
	switch {
	case n < 0:
		c.fail("I3: create is negative: %d", n)
	case n == 0:
	case c.preset.Pause != "":
		c.fail("C10: create %d while paused", n)
	case c.preset.Breaker != "":
		c.fail("S3: create %d while the breaker is open", n)
	case c.preset.Retired != "":
		c.fail("C4: create %d for a retired preset", n)
	case c.preset.FailureStreak >= HardLimit && !c.preset.FailuresMayPass:
		c.fail("C8: create %d beyond the hard limit", n)
	default:
		surge, replaced := c.renewal(ws)
		if most := c.wanted() + surge; has-replaced+n > most {
			c.fail("I3: %d there and %d created, but at most %d wanted", has-replaced, n, most)
		}
	}
}

// renewal: C9. What goes although it still could be claimed expires soon, and for those that stay of that kind there
// may be more than wanted: a quarter of desired.
func (c *checker) renewal(ws []Workspace) (surge, replaced int) {
	for _, w := range ws {
		if !c.active(w) || w.Busy || !c.built(w) || w.ExpiresAt.IsZero() || c.preset.RenewAhead == 0 {
			continue
		}
		switch soon := w.ExpiresAt.Sub(c.now) <= c.preset.RenewAhead; {
		case c.renewed(w):
			replaced++
			if !soon {
				c.fail("C9: workspace %s is renewed, but expires at %s only", w.ID, Instant(w.ExpiresAt))
			}
		case soon:
			surge++
		}
	}
	return min(surge, (c.preset.Desired+3)/4), replaced
}

// renewed says whether w goes before its expiry and because of it.
func (c *checker) renewed(w Workspace) bool { return c.rules[w.ID] == "C9" && c.alive(w) }

// victims: what goes goes for a reason, and what has one goes. Of those that the preset has, only the surplus does, and
// none that is ready while one that is not could go instead (C6).
func (c *checker) victims(ws []Workspace) {
	wanted := c.wanted()
	if c.preset.Retired != "" {
		wanted = 0
	}
	has, went, wentBuilt, unbuiltLeft, builtLeft := 0, 0, 0, 0, 0
	surge, replaced := c.renewal(ws)
	if c.preset.Retired != "" {
		surge = 0
	}
	for _, w := range ws {
		building := w.State == Provisioning || w.State == Starting
		if c.active(w) && c.built(w) && !c.gone[w.ID] && !w.Busy {
			builtLeft++
		}
		switch {
		case w.Busy: // runners says that it stays
		case c.active(w) && c.renewed(w):
		case c.active(w):
			has++
			switch {
			case c.gone[w.ID] && c.built(w):
				went, wentBuilt = went+1, wentBuilt+1
			case c.gone[w.ID]:
				went++
			case building:
				unbuiltLeft++
			}
		case c.still() || w.HasIntent || !(building || c.built(w)):
		case !c.alive(w) && !c.gone[w.ID]:
			c.fail("C9: expired workspace %s stays", w.ID)
		case building && !c.gone[w.ID]:
			c.fail("C11: outdated workspace %s, which is not ready, stays", w.ID)
		case w.GivenUp && !c.gone[w.ID]:
			c.fail("C4: outdated workspace %s stays at a provider that was deleted", w.ID)
		}
	}
	if replaced > 0 && builtLeft+wentBuilt < wanted {
		c.fail("C9: %d go before they expire, though only %d of %d ready ones stay", replaced, builtLeft, wanted)
	}
	if len(c.preset.Cold) > 0 { // which of them are for claims and which are surplus, their own test says
		return
	}
	if surplus := c.mayGo(max(0, has-wanted-surge)); went > surplus {
		c.fail("I3: %d of the active version go, but only %d are surplus", went, surplus)
	} else if went < surplus && !c.still() {
		c.fail("C6: %d of the active version go, but %d are surplus", went, surplus)
	}
	if wentBuilt > 0 && unbuiltLeft > 0 {
		c.fail("C6: %d ready ones go while %d that are not ready stay", wentBuilt, unbuiltLeft)
	}
}

// oldestFirst: C6, C7. Of those alike in version and state, none stays that is older than one that goes.
func (c *checker) oldestFirst(ws []Workspace) {
	type kind struct {
		state           State
		leased, current bool
	}
	oldestLeft := make(map[kind]time.Time)
	of := func(w Workspace) kind {
		return kind{w.State, w.State == Provisioning && w.Leased, w.PoolKey == c.preset.PoolKey}
	}
	for _, w := range ws {
		if w.HasIntent || c.gone[w.ID] || w.Busy {
			continue
		}
		if at, ok := oldestLeft[of(w)]; !ok || w.CreatedAt.Before(at) {
			oldestLeft[of(w)] = w.CreatedAt
		}
	}
	for _, w := range ws {
		at, ok := oldestLeft[of(w)]
		if ok && c.gone[w.ID] && c.alive(w) && !c.renewed(w) && !w.GivenUp && at.Before(w.CreatedAt) {
			c.fail("C6: workspace %s goes while an older one like it stays", w.ID)
		}
	}
}

// availability: C7. Through our own doing, the current ones that are ready and the outdated ones kept in their place
// never fall below desired; and no more outdated ones stay than that takes. Those that make room under a full maximum
// (S4) are as good as kept: nobody could claim them.
func (c *checker) availability(ws []Workspace) {
	if c.still() {
		return
	}
	desired := c.preset.Desired
	if c.preset.Retired != "" {
		desired = 0
	}
	least := desired - c.unavailable(desired)
	makesRoom := map[uuid.UUID]bool{} // S4: for a current one, under a full maximum
	for _, i := range c.plan.Intents {
		makesRoom[i.WorkspaceID] = i.Rule == "S4"
	}
	before, after, outdatedAfter, given := 0, 0, 0, 0
	for _, w := range ws {
		if makesRoom[w.ID] && c.preset.KeepOutdated {
			given++
		}
		if makesRoom[w.ID] && w.PoolKey == c.preset.PoolKey {
			c.fail("S4: workspace %s makes room, though it is of the active version", w.ID)
		}
		if !c.built(w) || !c.alive(w) || w.HasIntent || w.Busy || w.GivenUp {
			continue
		}
		before++
		if c.gone[w.ID] && !makesRoom[w.ID] {
			continue
		}
		after++
		if w.PoolKey != c.preset.PoolKey {
			outdatedAfter++
		}
	}
	if given > 1 || given == 1 && (c.preset.MaxUnavailable != "" || after < desired-1) {
		c.fail("S4: %d make room that could be claimed, and %d of %d ready ones stay", given, after, desired)
	}
	if after+given < min(before, least) {
		c.fail("C7: %d of %d ready ones stay, but at least %d must", after, before, least)
	}
	c.surge(ws, outdatedAfter)
	if outdatedAfter > 0 && after > desired {
		c.fail("C7: %d outdated ones stay, though %d ready ones are more than the %d desired",
			outdatedAfter, after, desired)
	}
}

// unavailable is how many fewer than desired a rollout may leave ready; where neither a surge nor that is allowed, one.
func (c *checker) unavailable(desired int) int {
	n := c.preset.MaxUnavailable.of(desired, false, 0)
	if n == 0 && c.preset.MaxSurge.Zero() {
		return 1
	}
	if n == 0 && c.preset.MaxSurge.of(desired, true, desired) == 0 { // a share of nothing
		return 1
	}
	return n
}

// surge: C7. What is created beside outdated ones that stay is within max_surge, and a version that has not shown that it
// works begins with a few.
func (c *checker) surge(ws []Workspace, outdated int) {
	if outdated == 0 || c.plan.Create == 0 || c.preset.Retired != "" {
		return
	}
	ready, building := 0, 0
	for _, w := range ws {
		switch {
		case !c.active(w) || c.gone[w.ID]:
		case c.built(w):
			ready++
		default:
			building++
		}
	}
	wanted := c.wanted()
	if most := wanted + c.preset.MaxSurge.of(c.preset.Desired, true, c.preset.Desired); ready+building+c.plan.Create+outdated > most {
		c.fail("C7: %d outdated, %d current ones and %d created are more than %d", outdated, ready+building, c.plan.Create, most)
	}
	if c.preset.Unproven && ready == 0 && c.preset.KeepOutdated && building+c.plan.Create > HardLimit+wanted-c.preset.Desired {
		c.fail("C7: %d of a version that never worked", building+c.plan.Create)
	}
}

// ledger: the column adds up to what is created, and the drains to what goes.
func (c *checker) ledger() {
	sum := 0
	for _, line := range c.plan.Ledger.Creates {
		sum += line.Count
	}
	if sum != c.plan.Create || c.plan.Ledger.Create != c.plan.Create {
		c.fail("ledger adds up to %d and says %d, but the plan creates %d", sum, c.plan.Ledger.Create, c.plan.Create)
	}
	goes := 0
	for _, line := range c.plan.Ledger.Drains {
		if line.Label != LabelKeep {
			goes += line.Count
		}
	}
	if goes != len(c.plan.Intents) {
		c.fail("ledger lets %d go, but the plan has %d intents", goes, len(c.plan.Intents))
	}
}

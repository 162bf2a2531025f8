package prebuilds

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// drawPool draws any preset with any unclaimed workspaces, close enough to its limits that they matter.
func drawPool(t *rapid.T) *pool {
	p := newPool(rapid.IntRange(0, 6).Draw(t, "desired"))
	sometimes := func(label string) bool { return rapid.IntRange(0, 4).Draw(t, label) == 0 }
	p.preset.Waiting = max(0, rapid.IntRange(-3, 3).Draw(t, "waiting"))
	p.preset.Priority = rapid.IntRange(-1, 1).Draw(t, "priority")
	p.preset.KeepOutdated = rapid.Bool().Draw(t, "keep outdated")
	if rapid.Bool().Draw(t, "renews") {
		p.preset.RenewAhead = time.Duration(rapid.IntRange(1, 4).Draw(t, "renew ahead")) * time.Second
	}
	if sometimes("schedule") {
		p.preset.Schedule = mustSchedule(rapid.SampledFrom([]string{"* 12 * * *", "0-29 12 * * *", "* 13 * * *"}).
			Draw(t, "range"), rapid.IntRange(0, 6).Draw(t, "scheduled"))
	}
	if sometimes("retired") {
		deleted(&p.preset)
	}
	if sometimes("paused") {
		paused(&p.preset)
	}
	if sometimes("breaker") {
		broken(&p.preset)
	}
	shares := rapid.SampledFrom([]Share{"", "", "0", "1", "0%", "25%", "50%", "2"})
	p.preset.MaxSurge, p.preset.MaxUnavailable = shares.Draw(t, "surge"), shares.Draw(t, "unavailable")
	p.preset.Running = rapid.SampledFrom([]Share{"", "", "0", "1", "3", "50%", "100%"}).Draw(t, "running")
	p.preset.Unproven = sometimes("unproven")
	p.preset.RolloutAt = noon.Add(-time.Duration(rapid.IntRange(0, 20).Draw(t, "rollout began")) * time.Second)
	p.preset.ProgressDeadline = time.Duration(rapid.IntRange(0, 20).Draw(t, "deadline")) * time.Second
	p.preset.CreatesInFlight = max(0, rapid.IntRange(-6, 4).Draw(t, "in flight"))
	p.preset.FailuresMayPass = sometimes("may pass")
	failed(max(0, rapid.IntRange(-4, 4).Draw(t, "streak")),
		time.Duration(rapid.IntRange(0, 30).Draw(t, "failed ago"))*time.Second)(&p.preset)

	if sometimes("runners") {
		p.preset.Runner = &Runner{
			Queued: rapid.IntRange(0, 3).Draw(t, "queued"), Busy: rapid.IntRange(0, 3).Draw(t, "busy"),
			Maximum:  max(0, rapid.IntRange(-6, 14).Draw(t, "maximum of runners")),
			ShrunkAt: noon.Add(-time.Duration(rapid.IntRange(40, 80).Draw(t, "shrunk ago")) * time.Second),
		}
		if sometimes("stopped") {
			stopped(&p.preset)
		}
		if p.preset.Runner.Stopped != nil && rapid.Bool().Draw(t, "drained") {
			drained(&p.preset)
		}
	}

	states := rapid.SampledFrom([]State{
		Provisioning, Starting, Ready, Ready, Ready, Standby, Draining, Deleting, Quarantined,
	})
	for range rapid.IntRange(0, 14).Draw(t, "workspaces") {
		p.add(1, states.Draw(t, "state"), func(w *Workspace) {
			w.CreatedAt = noon.Add(-time.Duration(rapid.IntRange(0, 5).Draw(t, "age")) * time.Hour)
			w.Incarnation = int32(rapid.IntRange(1, 3).Draw(t, "incarnation"))
			w.HasIntent, w.Moving = sometimes("intent"), sometimes("moving")
			w.WasReady = w.State == Ready || w.State == Standby || sometimes("was ready")
			w.Leased = rapid.Bool().Draw(t, "leased")
			w.Busy = p.preset.Runner != nil && rapid.IntRange(0, 3).Draw(t, "at a job") == 0
			if rapid.IntRange(0, 2).Draw(t, "outdated") == 0 {
				w.PoolKey = oldKey
				w.GivenUp = sometimes("given up")
			}
			if rapid.IntRange(0, 2).Draw(t, "ttl") == 0 {
				w.ExpiresAt = noon.Add(time.Duration(rapid.IntRange(-3, 8).Draw(t, "expires in")) * time.Second)
			}
		})
	}
	return p
}

func mustPlan(t require.TestingT, p *pool, now time.Time) Plan {
	plan, err := MakePlan(p.preset, p.workspaces, now)
	require.NoError(t, err)
	return plan
}

// TestPlansAreSafe: no rows lead to a plan that violates an invariant.
func TestPlansAreSafe(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPool(t)
		plan := mustPlan(t, p, noon)
		require.Empty(t, Check(p.preset, p.workspaces, plan, noon), "%s\n%s", p, plan)
		if n := p.preset.CreatesInFlight; n > 0 && plan.Create > 0 {
			require.LessOrEqual(t, plan.inFlight+plan.Create, n)
		}
	})
}

// TestPlansAreComplete: C5 to the letter where nothing holds a create back.
func TestPlansAreComplete(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPool(t).with(func(p *Preset) {
			p.Retired, p.Pause, p.Breaker, p.FailureStreak, p.CreatesInFlight, p.Unproven, p.MaxSurge = "", "", "", 0, 0, false, ""
		})
		plan := mustPlan(t, p, noon)
		has := plan.Counts.Actual + plan.Counts.Starting
		p.preset.RenewAhead = 0
		wanted := p.preset.at(noon).Desired + p.preset.Waiting
		if r := p.preset.Runner; r != nil {
			r.Maximum, r.Stopped = 0, nil
			wanted += r.Queued
		}
		require.Equal(t, max(0, wanted-has), mustPlan(t, p, noon).Create)
	})
}

// TestPlansIgnoreOrder: the same rows in another order give the same plan, so replicas agree.
func TestPlansIgnoreOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPool(t)
		plan := mustPlan(t, p, noon)
		p.workspaces = rapid.Permutation(p.workspaces).Draw(t, "order")
		require.Equal(t, plan, mustPlan(t, p, noon))
	})
}

// TestPlansSettle: a plan carried out leaves nothing to do, so two passes in a row do not do the same work twice.
func TestPlansSettle(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPool(t)
		apply(p, mustPlan(t, p, noon), noon)
		again := mustPlan(t, p, noon)
		require.Zero(t, again.Create, "%s\n%s", p, again)
		require.Empty(t, again.Intents, "%s\n%s", p, again)
		require.Empty(t, again.Moves, "%s\n%s", p, again)
	})
}

// apply writes a plan as a pass does.
func apply(p *pool, plan Plan, now time.Time) {
	for i := range p.workspaces {
		for _, intent := range plan.Intents {
			if intent.WorkspaceID == p.workspaces[i].ID {
				p.workspaces[i].HasIntent = true
			}
		}
		for _, m := range plan.Moves {
			if m.WorkspaceID == p.workspaces[i].ID {
				p.workspaces[i].Moving = true
			}
		}
	}
	if _, shrinks := plan.Shrinks(now); shrinks {
		runner := *p.preset.Runner
		runner.ShrunkAt = now
		p.preset.Runner = &runner
	}
	p.add(plan.Create, Provisioning, func(w *Workspace) { w.CreatedAt = now })
}

// TestPlansHoldUntilRetryAt: until RetryAt the same rows give the same plan to the byte, so a pass that finds nothing
// new writes nothing, and nobody misses what time alone brings about.
func TestPlansHoldUntilRetryAt(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPool(t)
		plan := mustPlan(t, p, noon)
		later := noon.Add(time.Duration(rapid.IntRange(0, 12).Draw(t, "later")) * time.Second)
		if !plan.RetryAt.IsZero() && !later.Before(plan.RetryAt) {
			later = plan.RetryAt.Add(-1)
		}
		want, err := json.Marshal(plan)
		require.NoError(t, err)
		got, err := json.Marshal(mustPlan(t, p, later))
		require.NoError(t, err)
		require.JSONEq(t, string(want), string(got), "%s", p)
		require.Equal(t, string(want), string(got))
	})
}

// TestMorePlansLess: what one more ready prebuild changes is one create less, or one more that goes; never the reverse. One
// that goes in a rollout without surge may make room for a create: with max_surge 0 and max_unavailable 2, of 6 desired, an
// outdated one is kept beside 3 ready ones, and goes beside 4.
func TestMorePlansLess(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := drawPool(t).with(func(p *Preset) { p.Unproven = false }) // one ready one would show that it works
		before := mustPlan(t, p, noon)
		p.add(1, Ready)
		after := mustPlan(t, p, noon)
		more := len(after.Intents) - len(before.Intents)
		require.GreaterOrEqual(t, more, 0)
		require.LessOrEqual(t, after.Create, before.Create+more)
	})
}

// TestClampIsFair draws pools on two providers with little room and judges what each of them got.
func TestClampIsFair(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		presets := make(map[uuid.UUID]Preset)
		pools := make(map[uuid.UUID]*pool)
		asked := make(map[uuid.UUID]int)
		var plans, shuffled []*Plan
		for n := range rapid.IntRange(1, 8).Draw(t, "presets") {
			p := drawPool(t)
			p.preset.ID, p.preset.Name = numbered(1000+n), rapid.SampledFrom([]string{"small", "large"}).Draw(t, "name")
			p.preset.Provider = rapid.SampledFrom([]string{"sim", "local"}).Draw(t, "provider")
			for i := range p.workspaces {
				p.workspaces[i].PresetID = p.preset.ID
			}
			plan, copied := mustPlan(t, p, noon), mustPlan(t, p, noon)
			presets[plan.PresetID], pools[plan.PresetID], asked[plan.PresetID] = p.preset, p, plan.Create
			plans, shuffled = append(plans, &plan), append(shuffled, &copied)
		}
		limits := make(map[string]Limits)
		for _, name := range []string{"sim", "local"} {
			limits[name] = Limits{
				Maximum: rapid.IntRange(0, 20).Draw(t, "maximum"),
				Live:    rapid.IntRange(0, 20).Draw(t, "live"),
				Chunk:   rapid.IntRange(0, 15).Draw(t, "chunk"),

				Reserves:  rapid.Bool().Draw(t, "reserves"),
				Stale:     rapid.SampledFrom([]bool{false, false, false, true}).Draw(t, "stale"),
				Available: rapid.IntRange(-3, 15).Draw(t, "available"),
			}
		}
		left := Clamp(plans, limits)
		shuffled = rapid.Permutation(shuffled).Draw(t, "order")
		require.Equal(t, left, Clamp(shuffled, limits))
		got := make(map[uuid.UUID]*Plan)
		for _, plan := range shuffled {
			got[plan.PresetID] = plan
		}

		total, granted := make(map[string]int), make(map[string]int)
		for _, plan := range plans {
			p := pools[plan.PresetID]
			require.Equal(t, plan, got[plan.PresetID], "the order of the plans does not matter")
			require.Empty(t, Check(p.preset, p.workspaces, *plan, noon), "%s", plan)
			require.LessOrEqual(t, plan.Create, asked[plan.PresetID])
			total[p.preset.Provider] += asked[plan.PresetID]
			granted[p.preset.Provider] += plan.Create
		}
		for name, l := range limits {
			room := l.Chunk
			if l.Maximum > 0 {
				room = min(room, max(0, l.Maximum-l.Live))
			}
			switch {
			case l.Reserves && l.Stale:
				room = 0
			case l.Reserves:
				room = min(room, max(0, l.Available))
			}
			require.Equal(t, min(room, total[name]), granted[name], "all of the room is used, and no more")
			after := l
			after.Live, after.Chunk = l.Live+granted[name], l.Chunk-granted[name]
			if l.Reserves {
				after.Available -= granted[name]
			}
			require.Equal(t, after, left[name])
		}
		for _, hungry := range plans {
			h := presets[hungry.PresetID]
			if hungry.Create == asked[hungry.PresetID] {
				continue
			}
			for _, fed := range plans {
				f := presets[fed.PresetID]
				if fed == hungry || f.Provider != h.Provider || fed.Create == 0 {
					continue
				}
				next, last := hungry.Create < unserved(hungry), fed.Create <= unserved(fed)
				require.True(t, last || !next, "a prebuild was served before a claim that waits")
				if last != next {
					continue
				}
				require.GreaterOrEqual(t, f.Priority, h.Priority, "a lower priority was served before a higher one")
				if f.Priority == h.Priority {
					require.LessOrEqual(t, fill(fed, f, -1), fill(hungry, h, 0), "the last create went to the fuller pool")
				}
			}
		}
	})
}

// unserved is how many claims and jobs wait for which nothing was being built.
func unserved(plan *Plan) int { return plan.Counts.Waiting + plan.Counts.Queued - plan.Counts.Starting }

// fill is the share of what it wants that a pool has after its creates, and change more.
func fill(plan *Plan, p Preset, change int) float64 {
	return float64(plan.Counts.Actual+plan.Counts.Starting+plan.Create+change) / float64(plan.Counts.Desired+p.demand())
}

package prebuilds

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func runners(r Runner) func(*Preset) { return func(p *Preset) { p.Runner = &r } }

func atJob(w *Workspace) { w.Busy = true }

func stopped(p *Preset) {
	p.Runner.Stopped = &ForgeStop{Forge: "acme", Cause: "moving the organization"}
}

func drained(p *Preset) {
	stopped(p)
	p.Retired = ForgeDrained
}

// TestRunners_table: P3, P7, P8 and the preset's maximum, one by one.
func TestRunners_table(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pool   *pool
		create int
		goes   []int // numbers of those that go, in their order
		rule   string
		retry  time.Duration
	}{
		"jobs are on top of the least idle": {pool: newPool(2).with(runners(Runner{Queued: 3})).add(1, Ready), create: 4},
		"what is busy is no part of the pool": {
			pool: newPool(2).with(runners(Runner{Queued: 1, Busy: 7})).add(1, Ready).add(1, Starting), create: 1,
		},
		"no runner without a job to come": {pool: newPool(0).with(runners(Runner{}))},
		"within the maximum": {
			pool:   newPool(2).with(runners(Runner{Queued: 9, Busy: 3, Maximum: 7})).add(1, Ready).add(1, Draining).add(1, Quarantined),
			create: 1,
		},
		"beyond the maximum nothing goes": {pool: newPool(2).with(runners(Runner{Queued: 1, Busy: 3, Maximum: 4})).add(3, Ready)},
		"an outdated one makes room under a full maximum": {
			pool: newPool(2).with(runners(Runner{Maximum: 2})).add(2, Ready, old), goes: []int{1}, rule: "S4",
		},
		"a half of the surplus, rounded up": {
			pool: newPool(1).with(runners(Runner{})).add(6, Ready), goes: []int{1, 2, 3}, rule: "P8",
		},
		"the next half when the minute is over": {
			pool: newPool(1).with(runners(Runner{ShrunkAt: noon.Add(-time.Minute)})).add(3, Ready), goes: []int{1}, rule: "P8",
		},
		"nothing before that": {
			pool:  newPool(1).with(runners(Runner{ShrunkAt: noon.Add(-59 * time.Second)})).add(4, Ready),
			retry: time.Second,
		},
		"what is not registered yet goes first": {
			pool: newPool(1).with(runners(Runner{})).add(2, Ready).add(1, Starting), goes: []int{3}, rule: "P8",
		},
		"who has a job is no surplus, and nobody goes in its place": {
			pool: newPool(2).with(runners(Runner{})).add(1, Ready, atJob).add(2, Ready),
		},
		"who has a job is what the queued job counts": {
			pool: newPool(2).with(runners(Runner{Queued: 1})).add(1, Ready, atJob).add(2, Ready),
		},
		"expired with a job": {pool: newPool(1).with(runners(Runner{})).add(1, Ready, expired, atJob).add(1, Ready)},
		"outdated: those with a job stay": {
			pool: newPool(1).with(runners(Runner{})).add(2, Ready, old, atJob).add(1, Ready, old).add(1, Ready), goes: []int{3}, rule: "C7",
		},
		"outdated: a current one with a job is none in their place": {
			pool: newPool(2).with(runners(Runner{})).add(1, Ready, old).add(1, Ready, atJob).add(1, Ready),
		},
		"expires soon: one with a job is none in its place": {
			pool:  newPool(2).with(runners(Runner{})).with(renews).add(1, Ready, expires(time.Minute)).add(1, Ready, atJob).add(1, Ready),
			retry: time.Minute,
		},
		"retired: all idle ones go at once": {
			pool: newPool(1).with(runners(Runner{Queued: 5, ShrunkAt: noon})).with(deleted).add(4, Ready).add(1, Ready, atJob),
			goes: []int{1, 2, 3, 4}, rule: "C4",
		},
		"stopped: nothing is made, for jobs or to be idle": {
			pool: newPool(3).with(runners(Runner{Queued: 5})).with(stopped).add(1, Ready),
		},
		"stopped: surplus goes as usual": {
			pool: newPool(1).with(runners(Runner{})).with(stopped).add(3, Ready), goes: []int{1}, rule: "P8",
		},
		"stopped: the outdated stay, since nothing takes their place": {
			pool: newPool(2).with(runners(Runner{})).with(stopped).add(2, Ready, old),
		},
		"drained: all idle ones go at once, and none that has a job": {
			pool: newPool(3).with(runners(Runner{Queued: 5, ShrunkAt: noon})).with(drained).add(2, Ready).add(1, Starting).add(1, Ready, atJob),
			goes: []int{3, 1, 2}, rule: "P1",
		},
		"drained, but paused": {pool: newPool(3).with(runners(Runner{})).with(drained).with(paused).add(2, Ready)},
		"paused":              {pool: newPool(1).with(runners(Runner{Queued: 5})).with(paused).add(9, Ready)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			plan := mustPlan(t, tc.pool, noon)
			require.Empty(t, Check(tc.pool.preset, tc.pool.workspaces, plan, noon))
			require.Equal(t, tc.create, plan.Create, "%s", plan)
			var goes []int
			for _, in := range plan.Intents {
				goes = append(goes, slices.IndexFunc(tc.pool.workspaces, func(w Workspace) bool { return w.ID == in.WorkspaceID })+1)
				require.Equal(t, tc.rule, in.Rule)
			}
			require.Equal(t, tc.goes, goes, "%s", plan)
			if tc.retry > 0 {
				require.Equal(t, noon.Add(tc.retry), plan.RetryAt)
			}
			_, shrinks := plan.Shrinks(noon)
			require.Equal(t, tc.rule == "P8", shrinks)
		})
	}
}

// TestRunners_surplusHalves: n surplus runners are gone after log2(n)+1 minutes, and never more than half at once.
func TestRunners_surplusHalves(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		least, surplus := rapid.IntRange(0, 3).Draw(t, "least"), rapid.IntRange(1, 70).Draw(t, "surplus")
		p := newPool(least).with(runners(Runner{})).add(least+surplus, Ready)
		now, minutes, steps := noon, 0, 1
		for n := surplus; n > 1; n /= 2 {
			steps++
		}
		for left := surplus; left > 0; minutes++ {
			plan := mustPlan(t, p, now)
			require.Empty(t, Check(p.preset, p.workspaces, plan, now))
			require.Len(t, plan.Intents, (left+1)/2)
			apply(p, plan, now)
			left -= len(plan.Intents)
			p.workspaces = slices.DeleteFunc(p.workspaces, func(w Workspace) bool { return w.HasIntent })
			again := mustPlan(t, p, now)
			require.Empty(t, again.Intents)
			if left > 0 {
				require.Equal(t, now.Add(time.Minute), again.RetryAt)
			}
			now = now.Add(time.Minute)
		}
		require.LessOrEqual(t, minutes, steps)
		require.Len(t, p.workspaces, least)
	})
}

// TestRunners_converge: jobs come, run and end in any order with passes and faults; every plan is safe, the maximum holds,
// none goes that has a job, and in the end each job had a runner and the least idle ones are left.
func TestRunners_converge(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, 1)
		w.limits["sim"] = Limits{Chunk: 3}
		p := w.presets[0]
		p.Running, p.Runner = "", &Runner{}
		if rapid.Bool().Draw(t, "has a maximum") {
			p.Runner.Maximum = p.Desired + rapid.IntRange(1, 4).Draw(t, "maximum")
		}
		running := 0 // jobs that have a runner which is not claimed yet, and still count as queued or not
		start := func(claimed bool) {
			idle := w.of(p, func(ws *Workspace) bool {
				return ws.State == Ready && !ws.Busy && (claimed || !ws.HasIntent) // else the drain meets the veto
			})
			if p.Runner.Queued == 0 || len(idle) == 0 {
				return
			}
			p.Runner.Queued--
			if claimed {
				w.claim(idle[0])
				p.Runner.Busy++
				return
			}
			idle[0].Busy = true // the forge says so, the claim comes later
			running++
		}
		catchUp := func() {
			for _, ws := range w.of(p, func(ws *Workspace) bool { return ws.Busy }) {
				w.claim(ws)
				running--
				p.Runner.Busy++
			}
		}
		end := func() {
			if p.Runner.Busy > 0 {
				p.Runner.Busy--
				w.claimed[p.Provider]--
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"pass":             func(*rapid.T) { w.pass() },
			"work":             func(*rapid.T) { w.step(false) },
			"work on":          func(*rapid.T) { w.step(false) },
			"fail":             func(*rapid.T) { w.step(true) },
			"a job comes":      func(t *rapid.T) { p.Runner.Queued = min(12, p.Runner.Queued+rapid.IntRange(1, 4).Draw(t, "jobs")) },
			"a job starts":     func(*rapid.T) { start(true) },
			"a job is at work": func(*rapid.T) { start(false) },
			"claims catch up":  func(*rapid.T) { catchUp() },
			"a job ends":       func(*rapid.T) { end() },
			"a job is called off": func(*rapid.T) {
				p.Runner.Queued = max(0, p.Runner.Queued-1)
			},
			"new version": func(*rapid.T) { w.newVersion(p) },
			"time passes": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 90).Draw(t, "seconds")) * time.Second)
			},
			"": func(t *rapid.T) {
				if most := p.Runner.Maximum; most > 0 {
					require.LessOrEqual(t, len(w.of(p, func(*Workspace) bool { return true }))+p.Runner.Busy, most)
				}
			},
		})
		p.FailureStreak = 0
		for range 400 {
			catchUp()
			w.calm(400)
			if p.Runner.Queued == 0 && running == 0 && p.Runner.Busy == 0 {
				break
			}
			start(true)
			end()
		}
		w.calm(400)
		require.Zero(t, p.Runner.Queued, "no job is left without a runner")
		require.Len(t, w.of(p, func(ws *Workspace) bool { return ws.State == Ready && ws.PoolKey == p.PoolKey }), p.Desired)
		require.Len(t, w.of(p, func(*Workspace) bool { return true }), p.Desired, "nothing else is left")
	})
}

package prebuilds

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestConvergence: I6. Whatever happened, in whatever order, once the faults are over every pool comes to what it
// should be. On the way there, every plan of every pass is safe.
func TestConvergence(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, rapid.IntRange(1, 3).Draw(t, "presets"))
		actions := map[string]func(*rapid.T){
			"pass":        func(*rapid.T) { w.pass() },
			"pass again":  func(*rapid.T) { w.pass() },
			"work":        func(*rapid.T) { w.step(false) },
			"work on":     func(*rapid.T) { w.step(false) },
			"work more":   func(*rapid.T) { w.step(false) },
			"fail":        func(*rapid.T) { w.step(true) },
			"claim":       func(t *rapid.T) { w.ask(w.pick("preset")) },
			"give up":     func(t *rapid.T) { p := w.pick("preset"); p.Waiting = max(0, p.Waiting-1) },
			"new version": func(t *rapid.T) { w.newVersion(w.pick("preset")) },
			"scale":       func(t *rapid.T) { w.pick("preset").Desired = rapid.IntRange(0, 5).Draw(t, "desired") },
			"tier": func(t *rapid.T) {
				w.pick("preset").Running = rapid.SampledFrom([]Share{"", "0", "2", "50%"}).Draw(t, "running")
			},
			"keep": func(t *rapid.T) { p := w.pick("preset"); p.KeepOutdated = !p.KeepOutdated },
			"time passes": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second)
			},
			"expire": func(t *rapid.T) {
				if n := len(w.workspaces); n > 0 {
					ws := w.workspaces[rapid.IntRange(0, n-1).Draw(t, "workspace")]
					ws.ExpiresAt = w.now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second)
				}
			},
			"retire or restore": func(t *rapid.T) {
				p := w.pick("preset")
				if p.Retired == "" {
					p.Retired, p.Waiting = TemplateDeprecated, 0
				} else {
					p.Retired = ""
				}
			},
			"pause or resume": func(t *rapid.T) {
				p := w.pick("preset")
				if p.Pause == "" {
					p.Pause = "maintenance"
				} else {
					p.Pause = ""
				}
			},
			"pause or resume all": func(*rapid.T) {
				if w.paused == "" {
					w.paused = "upgrade"
				} else {
					w.paused = ""
				}
			},
		}
		t.Repeat(actions)

		// The faults are over: no pause, no limit in the way, and a person has reset what was at the hard limit.
		w.paused = ""
		w.limits["sim"] = Limits{Chunk: 3}
		for _, p := range w.presets {
			p.Pause = ""
			if p.FailureStreak >= HardLimit {
				p.FailureStreak = 0
			}
		}
		w.calm(150)
		for _, p := range w.presets {
			ready := w.of(p, func(ws *Workspace) bool { return ws.State == Ready && ws.PoolKey == p.PoolKey })
			require.Len(t, ready, p.running(), p.Name)
			built := w.of(p, func(ws *Workspace) bool { return ws.settled() && ws.PoolKey == p.PoolKey })
			require.Len(t, built, p.desired(), p.Name)
			require.Len(t, w.of(p, func(*Workspace) bool { return true }), p.desired(), "nothing else is left of %s", p.Name)
			require.Zero(t, p.Waiting, "nobody waits for %s any more", p.Name)
		}

		// I3, over history: at rest, nothing more is ever created.
		before := w.created
		w.calm(3)
		require.Equal(t, before, w.created)
	})
}

// TestRolloutKeepsThePool: C7. While nobody claims and nothing expires, version changes never leave fewer ready ones
// than desired, whatever fails on the way; and at each moment at most one extra set is there (I3 with its surge).
func TestRolloutKeepsThePool(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, 1)
		w.limits["sim"] = Limits{Maximum: 0, Chunk: 2}
		p := w.presets[0]
		if p.MaxUnavailable = ""; p.MaxSurge.Zero() { // else one would have to be missing
			p.MaxSurge = "1"
		}
		p.KeepOutdated = rapid.Bool().Draw(t, "keep")
		w.calm(80)
		t.Repeat(map[string]func(*rapid.T){
			"pass":        func(*rapid.T) { w.pass() },
			"work":        func(*rapid.T) { w.step(false) },
			"work on":     func(*rapid.T) { w.step(false) },
			"fail":        func(*rapid.T) { w.step(true) },
			"new version": func(*rapid.T) { w.newVersion(p) },
			"time passes": func(*rapid.T) { w.now = w.now.Add(7 * time.Second) },
			"": func(t *rapid.T) {
				staying := func(ws *Workspace) bool { return !ws.HasIntent }
				built := w.of(p, func(ws *Workspace) bool { return (ws.settled() || ws.State == Starting && ws.WasReady) && staying(ws) })
				require.GreaterOrEqual(t, len(built), p.Desired)
				current := w.of(p, func(ws *Workspace) bool {
					unfinished := ws.State == Provisioning || ws.State == Starting
					return (unfinished || ws.settled()) && ws.PoolKey == p.PoolKey && staying(ws)
				})
				require.LessOrEqual(t, len(current), p.Desired)
			},
		})
	})
}

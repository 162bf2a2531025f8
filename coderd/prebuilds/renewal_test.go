package prebuilds

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestC9_renewalKeepsThePool: a pool that became ready at once, whose prebuilds expire within a tenth of their lifetime,
// is renewed without ever having fewer eligible ones than desired, at a surge of at most a quarter.
func TestC9_renewalKeepsThePool(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const step = 20 * time.Second
		desired := rapid.IntRange(1, 12).Draw(t, "desired")
		ttl := time.Hour
		ahead := ttl / 10
		boot := time.Duration(rapid.IntRange(1, 3).Draw(t, "boot")) * step // at most a sixth of ahead
		fraction := rapid.Float64Range(0, 0.1)
		p := newPool(desired).with(func(p *Preset) { p.RenewAhead = ahead })
		expiry := func(now time.Time) time.Time {
			return now.Add(ttl - time.Duration(float64(ttl)*fraction.Draw(t, "jitter")))
		}
		p.add(desired, Ready, func(w *Workspace) { w.ExpiresAt = expiry(noon) })
		made := 0
		for now := noon; now.Before(noon.Add(2 * ttl)); now = now.Add(step) {
			var stay []Workspace
			for _, w := range p.workspaces {
				if w.State != Ready && !now.Before(w.CreatedAt.Add(boot)) {
					w.State, w.ExpiresAt = Ready, expiry(now)
				}
				if !w.HasIntent { // drained by now
					stay = append(stay, w)
				}
			}
			p.workspaces = stay
			plan := mustPlan(t, p, now)
			require.Empty(t, Check(p.preset, p.workspaces, plan, now), "%s\n%s", p, plan)
			require.GreaterOrEqual(t, plan.Counts.Eligible, desired, "at %s\n%s\n%s", now.Sub(noon), p, plan)
			has := plan.Counts.Actual + plan.Counts.Starting + plan.Create
			for _, intent := range plan.Intents {
				if intent.Code == Renewed {
					has--
				}
			}
			require.LessOrEqual(t, has, desired+(desired+3)/4)
			for i := range p.workspaces {
				for _, intent := range plan.Intents {
					p.workspaces[i].HasIntent = p.workspaces[i].HasIntent || intent.WorkspaceID == p.workspaces[i].ID
				}
			}
			for range plan.Create {
				made++
				p.workspaces = append(p.workspaces, Workspace{
					ID: numbered(1000 + made), PresetID: presetID, PoolKey: currentKey, State: Provisioning, Incarnation: 1,
					CreatedAt: now,
				})
			}
		}
		require.GreaterOrEqual(t, made, desired, "each was replaced about once an hour")
		require.LessOrEqual(t, made, 5*desired)
	})
}

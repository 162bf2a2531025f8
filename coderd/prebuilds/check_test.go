package prebuilds

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestCheckFinds spoils a good plan in one way after another: each must be found, and named.
func TestCheckFinds(t *testing.T) {
	t.Parallel()
	// Two of three are ready, so one of two outdated ones goes; one more is created.
	halfway := func() *pool { return newPool(3).add(2, Ready).add(2, Ready, old) }
	surplus := func() *pool { return newPool(1).add(2, Ready).add(1, Starting).add(1, Provisioning) }
	leaving := func() *pool {
		return newPool(1).add(1, Ready).add(1, Ready, expired).add(1, Starting, old).add(1, Draining)
	}
	intent := func(n int) Intent { return Intent{numbered(n), 1, Drain, "C6", Reason{Code: "whim"}} }
	for _, tc := range []struct {
		name, want string
		pool       *pool
		spoil      func(*pool, *Plan)
	}{
		{"another preset's plan", "plan is of preset", halfway(), func(_ *pool, plan *Plan) { plan.PresetID = numbered(1) }},
		{"a workspace twice", "there twice", halfway(), func(p *pool, _ *Plan) { p.workspaces[1].ID = numbered(1) }},
		{"negative count", "negative", halfway(), func(_ *pool, plan *Plan) { plan.Counts.Stopping = -1 }},
		{"counted twice", "add up to 5 of 4", halfway(), func(_ *pool, plan *Plan) { plan.Counts.Expired++ }},
		{"counted in the wrong class", "C3: actual 1", halfway(), func(_ *pool, plan *Plan) {
			plan.Counts.Actual, plan.Counts.Stopping = 1, 1
		}},
		{"eligible miscounted", "C3: eligible 4", halfway(), func(_ *pool, plan *Plan) { plan.Counts.Eligible = 4 }},

		{"an intent for a stranger", "not the preset's", halfway(), func(_ *pool, plan *Plan) {
			plan.Intents = append(plan.Intents, intent(77))
		}},
		{"two intents for one", "two intents", halfway(), func(_ *pool, plan *Plan) {
			plan.Intents = append(plan.Intents, plan.Intents[0])
		}},
		{"a second intent", "already has an intent", halfway(), func(p *pool, _ *Plan) { p.workspaces[2].HasIntent = true }},
		{"an intent for a draining one", "in state draining", leaving(), func(_ *pool, plan *Plan) {
			plan.Intents = append(plan.Intents, intent(4))
		}},
		{"another incarnation", "incarnation 2", halfway(), func(_ *pool, plan *Plan) { plan.Intents[0].Incarnation = 2 }},
		{"the wrong kind", "of kind cancel", halfway(), func(_ *pool, plan *Plan) { plan.Intents[0].Kind = Cancel }},
		{"no reason", "has no reason", halfway(), func(_ *pool, plan *Plan) { plan.Intents[0].Reason = Reason{} }},
		{"intents while paused", "C10: 1 intents", halfway(), func(p *pool, _ *Plan) { paused(&p.preset) }},

		{"one too many created", "I3: 2 there and 2 created", halfway(), func(_ *pool, plan *Plan) { plan.Create++ }},
		{"negative create", "I3: create is negative", halfway(), func(_ *pool, plan *Plan) { plan.Create = -1 }},
		{"created while paused", "C10: create 1", halfway(), func(p *pool, _ *Plan) { paused(&p.preset) }},
		{"created for a retired preset", "C4: create 1", halfway(), func(p *pool, _ *Plan) { deleted(&p.preset) }},
		{"created beyond the hard limit", "C8: create 1", halfway(), func(p *pool, _ *Plan) { failed(3, 0)(&p.preset) }},

		{"a good one goes", "but only 0 are surplus", halfway(), func(_ *pool, plan *Plan) {
			plan.Intents = append(plan.Intents, intent(1))
		}},
		{"surplus stays", "C6: 2 of the active version go, but 3", surplus(), func(_ *pool, plan *Plan) {
			plan.Intents = plan.Intents[1:]
		}},
		{"ready before not ready", "C6: 2 ready ones go while 1", surplus(), func(_ *pool, plan *Plan) {
			plan.Intents[0] = intent(2)
		}},
		{"the younger before the older", "an older one like it stays", halfway(), func(_ *pool, plan *Plan) {
			plan.Intents[0].WorkspaceID = numbered(4)
		}},
		{"an expired one stays", "C9: expired workspace " + numbered(2).String(), leaving(), func(_ *pool, plan *Plan) {
			plan.Intents = plan.Intents[1:]
		}},
		{
			"an unfinished outdated one stays", "C11: outdated workspace " + numbered(3).String(), leaving(),
			func(_ *pool, plan *Plan) { plan.Intents = plan.Intents[:1] },
		},
		{"too many outdated ones go", "C7: 2 of 4 ready ones stay", halfway(), func(_ *pool, plan *Plan) {
			plan.Intents = append(plan.Intents, intent(4))
		}},
		{"too few outdated ones go", "C7: 2 outdated ones stay", halfway(), func(_ *pool, plan *Plan) { plan.Intents = nil }},

		{"the ledger does not add up", "ledger adds up to 2", halfway(), func(_ *pool, plan *Plan) {
			plan.Ledger.Creates[0].Count++
		}},
		{"the ledger hides a drain", "ledger lets 0 go", halfway(), func(_ *pool, plan *Plan) { plan.Ledger.Drains = nil }},
		{"retry in the past", "not in the future", halfway(), func(_ *pool, plan *Plan) { plan.RetryAt = noon }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			plan, err := tc.pool.plan()
			require.NoError(t, err)
			require.Empty(t, Check(tc.pool.preset, tc.pool.workspaces, plan, noon), "good before it is spoilt")
			tc.spoil(tc.pool, &plan)
			var found string
			for _, err := range Check(tc.pool.preset, tc.pool.workspaces, plan, noon) {
				found += err.Error() + "\n"
			}
			assert.Contains(t, found, tc.want)
		})
	}
}

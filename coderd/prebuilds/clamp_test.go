package prebuilds

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// contest is a number of pools on one provider.
type contest struct {
	plans []*Plan
}

// enter adds a pool that has so many ready of so many desired.
func (c *contest) enter(t *testing.T, has, desired int, changes ...func(*Preset)) *Plan {
	t.Helper()
	n := len(c.plans) + 1
	pool := newPool(desired).with(func(p *Preset) { p.ID, p.Name = numbered(n), fmt.Sprintf("p%02d", n) })
	for _, change := range changes {
		pool.with(change)
	}
	plan, err := pool.add(has, Ready).plan()
	require.NoError(t, err)
	c.plans = append(c.plans, &plan)
	return &plan
}

func (c *contest) clamp(l Limits) Limits {
	return Clamp(c.plans, map[string]Limits{"sim": l})["sim"]
}

func (c *contest) creates() []int {
	var n []int
	for _, plan := range c.plans {
		n = append(n, plan.Create)
	}
	return n
}

func priority(n int) func(*Preset) { return func(p *Preset) { p.Priority = n } }

func TestClampOrder(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		enter func(*testing.T, *contest)
		room  int
		want  []int
	}{
		{"room for all", func(t *testing.T, c *contest) { c.enter(t, 0, 5); c.enter(t, 0, 5) }, 10, []int{5, 5}},
		{"no room", func(t *testing.T, c *contest) { c.enter(t, 0, 5); c.enter(t, 0, 5) }, 0, []int{0, 0}},
		{"equals take turns", func(t *testing.T, c *contest) {
			c.enter(t, 0, 5)
			c.enter(t, 0, 5)
			c.enter(t, 0, 5)
		}, 7, []int{3, 2, 2}},
		{"priority before emptiness", func(t *testing.T, c *contest) {
			c.enter(t, 0, 5)
			c.enter(t, 4, 8, priority(1))
		}, 5, []int{1, 4}},
		{"negative priority is last", func(t *testing.T, c *contest) {
			c.enter(t, 0, 5, priority(-1))
			c.enter(t, 4, 8)
		}, 5, []int{1, 4}},
		{"the emptiest first", func(t *testing.T, c *contest) { c.enter(t, 8, 10); c.enter(t, 2, 10) }, 6, []int{0, 6}},
		{"up to the level of the next, then in turn", func(t *testing.T, c *contest) {
			c.enter(t, 4, 10)
			c.enter(t, 0, 10)
		}, 8, []int{2, 6}},
		{"a large pool does not starve a small one", func(t *testing.T, c *contest) {
			c.enter(t, 0, 1000)
			c.enter(t, 0, 2)
		}, 501, []int{500, 1}},
		{"who waits makes a pool emptier", func(t *testing.T, c *contest) {
			c.enter(t, 5, 10)
			c.enter(t, 5, 10, waiting(10))
		}, 4, []int{0, 4}},
		{"a pool of waiting claims only", func(t *testing.T, c *contest) {
			c.enter(t, 1, 2)
			c.enter(t, 0, 0, waiting(1))
		}, 1, []int{0, 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var c contest
			tc.enter(t, &c)
			left := c.clamp(Limits{Chunk: tc.room})
			assert.Equal(t, tc.want, c.creates())
			total := 0
			for _, n := range tc.want {
				total += n
			}
			assert.Equal(t, tc.room-total, left.Chunk)
		})
	}
}

func TestClampLimits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		limits Limits
		create int
		rule   string
	}{
		{"no maximum", Limits{Live: 1 << 40, Chunk: 10}, 10, ""},
		{"maximum reached", Limits{Maximum: 20, Live: 20, Chunk: 10}, 0, "S4"},
		{"maximum exceeded", Limits{Maximum: 20, Live: 25, Chunk: 10}, 0, "S4"},
		{"maximum in sight", Limits{Maximum: 20, Live: 13, Chunk: 10}, 7, "S4"},
		{"maximum and chunk alike", Limits{Maximum: 20, Live: 13, Chunk: 7}, 7, "S4"},
		{"chunk before maximum", Limits{Maximum: 20, Live: 13, Chunk: 6}, 6, "S5"},
		{"chunk used up", Limits{Chunk: 0}, 0, "S5"},
		{"chunk overdrawn", Limits{Chunk: -3}, 0, "S5"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var c contest
			plan := c.enter(t, 0, 10)
			left := c.clamp(tc.limits)
			assert.Equal(t, tc.create, plan.Create)
			assert.Equal(t, tc.limits.Chunk-tc.create, left.Chunk)
			assert.Equal(t, tc.limits.Live+tc.create, left.Live)
			assert.Equal(t, tc.limits.Maximum, left.Maximum)
			assert.Empty(t, plan.Intents, "never scale down to reach a maximum")

			last := plan.Ledger.Creates[len(plan.Ledger.Creates)-1]
			if tc.rule == "" {
				assert.NotEqual(t, "held back", last.Label)
			} else {
				assert.Equal(t, Line{Label: "held back", Count: tc.create - 10, Rule: tc.rule, Reason: last.Reason}, last)
				assert.Contains(t, last.Reason.String(), "provider sim")
			}
		})
	}
}

func TestClampProviders(t *testing.T) {
	t.Parallel()
	var c contest
	sim := c.enter(t, 0, 5)
	local := c.enter(t, 0, 5, func(p *Preset) { p.Provider = "local" })
	lost := c.enter(t, 0, 5, func(p *Preset) { p.Provider = "lost" })
	limits := map[string]Limits{"sim": {Chunk: 2}, "local": {Chunk: 9}, "idle": {Chunk: 3}}

	left := Clamp(append(c.plans, nil), limits)

	assert.Equal(t, 2, sim.Create)
	assert.Equal(t, 5, local.Create)
	assert.Equal(t, 0, lost.Create, "nothing is created where no limits are known")
	assert.Contains(t, lost.Ledger.String(), `no limits are known of provider "lost"`)
	assert.Equal(t, map[string]Limits{"sim": {Live: 2}, "local": {Live: 5, Chunk: 4}, "idle": {Chunk: 3}}, left)
	assert.Equal(t, map[string]Limits{"sim": {Chunk: 2}, "local": {Chunk: 9}, "idle": {Chunk: 3}}, limits,
		"the limits given are not touched")
}

// TestClampNamesakes: presets of two organizations may be alike in everything but their id, and the order of the plans
// still decides nothing.
func TestClampNamesakes(t *testing.T) {
	t.Parallel()
	var c contest
	first := c.enter(t, 0, 5, func(p *Preset) { p.Name = "same" })
	second := c.enter(t, 0, 5, func(p *Preset) { p.Name = "same" })
	slices.Reverse(c.plans)
	c.clamp(Limits{Chunk: 1})
	assert.Equal(t, 1, first.Create)
	assert.Equal(t, 0, second.Create)
}

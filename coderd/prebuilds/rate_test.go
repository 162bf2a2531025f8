package prebuilds

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestRate(t *testing.T) {
	t.Parallel()
	r := Rate{Every: 5 * time.Second, Burst: 3}
	full := r.At(noon)
	assert.Equal(t, 3, full.Creates)
	assert.True(t, full.NextAt.IsZero())

	spent := full.spend(2)
	assert.Equal(t, 1, spent.Creates)
	assert.Equal(t, noon.Add(5*time.Second), spent.NextAt)
	assert.Equal(t, noon.Add(10*time.Second), spent.FullAt())
	assert.Equal(t, 3, full.Creates, "what was given is not touched")

	r.FullAt = spent.spend(1).FullAt()
	for after, want := range map[time.Duration]int{
		0: 0, 5*time.Second - 1: 0, 5 * time.Second: 1, 9 * time.Second: 1, 10 * time.Second: 2, 15 * time.Second: 3, time.Hour: 3,
	} {
		assert.Equal(t, want, r.At(noon.Add(after)).Creates, after)
	}
	r.Burst = 1 // it was lowered
	assert.Equal(t, 0, r.At(noon).Creates)
	assert.Equal(t, 0, r.At(noon.Add(14*time.Second)).Creates)
	assert.Equal(t, 1, r.At(noon.Add(15*time.Second)).Creates)
}

// S5: whatever is spent and whenever, in no span of time are more begun than the burst and one for each Every.
func TestRate_isKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := Rate{
			Every: time.Duration(rapid.IntRange(1, 7).Draw(t, "every")) * time.Second,
			Burst: rapid.IntRange(1, 4).Draw(t, "burst"),
		}
		now, total := noon, 0
		for range rapid.IntRange(1, 30).Draw(t, "passes") {
			now = now.Add(time.Duration(rapid.IntRange(0, 9000).Draw(t, "ms")) * time.Millisecond)
			left := r.At(now)
			require.GreaterOrEqual(t, left.Creates, 0)
			if left.Creates < r.Burst {
				require.True(t, left.NextAt.After(now))
				require.Equal(t, left.Creates, r.At(left.NextAt.Add(-1)).Creates, "no sooner")
				require.Equal(t, left.Creates+1, r.At(left.NextAt).Creates, "and no later")
			}
			n := rapid.IntRange(0, left.Creates).Draw(t, "spent")
			total += n
			r.FullAt = left.spend(n).FullAt()
			require.LessOrEqual(t, total, r.Burst+int(now.Sub(noon)/r.Every))
		}
	})
}

// S5: the rate holds back what is beyond it, and says when the next one may begin.
func TestClamp_rate(t *testing.T) {
	t.Parallel()
	var c contest
	first, second := c.enter(t, 0, 5, priority(1)), c.enter(t, 0, 5)
	left := c.clamp(Limits{Chunk: 100, Rate: Rate{Every: time.Minute, Burst: 3}.At(noon)})
	assert.Equal(t, []int{3, 0}, c.creates())
	assert.Equal(t, 0, left.Rate.Creates)
	assert.Equal(t, 97, left.Chunk)
	for _, plan := range []*Plan{first, second} {
		assert.Contains(t, plan.Ledger.String(), "rate of provider sim: one each 1m0s (S5)")
		assert.Equal(t, noon.Add(time.Minute), plan.RetryAt)
	}
}

// S3: while the breaker is open nothing is created and nothing goes, and the ledger says why.
func TestBreaker(t *testing.T) {
	t.Parallel()
	plan := mustPlan(t, newPool(4).with(broken).add(1, Ready).add(1, Ready, expired), noon)
	assert.Zero(t, plan.Create)
	assert.Empty(t, plan.Intents)
	assert.Contains(t, plan.Ledger.String(), "breaker of provider sim: the listing failed (S3)")
	assert.Contains(t, plan.Ledger.String(), "expired, but the breaker of provider sim is open: the listing failed (S3)")
	assert.Equal(t, 1, plan.Counts.Eligible, "claims go on")
}

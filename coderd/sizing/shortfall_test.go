package sizing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sizing"
)

// steps goes on for a while, a step each five minutes with so many claims and hits before it, and returns what the last said
// of the target and how often what was said went from nothing to something.
type steps struct {
	s      sizing.Settings
	state  sizing.State
	h      *sizing.History
	now    time.Time
	said   string
	begins int
}

func newSteps(s sizing.Settings) *steps {
	return &steps{s: s, h: sizing.NewHistory(monday), now: monday}
}

func (x *steps) step(length time.Duration, claims, hits int, applied bool) string {
	for end := x.now.Add(length); x.now.Before(end); {
		x.h.Add(x.now, sizing.Bucket{Claims: claims, Hits: hits})
		x.now = x.now.Add(sizing.BucketLength)
		var r sizing.Recommendation
		r, x.state = sizing.Step(x.s, x.state, x.h, x.now, applied)
		if x.said == "" && r.Unattainable != "" {
			x.begins++
		}
		x.said = r.Unattainable
	}
	return x.said
}

// A pool that asks for more than its maximum for an hour says so, once, and until it has not asked for half an hour. A
// burst says nothing, and neither does a pool that autosize does not size.
func TestMaximumTooLow(t *testing.T) {
	t.Parallel()
	s := sizing.Settings{Min: 1, Max: 3, Target: 0.99}
	x := newSteps(s)
	require.Empty(t, x.step(2*time.Hour, 0, 0, true))
	require.Empty(t, x.step(10*time.Minute, 9, 9, true), "a burst")
	require.Empty(t, x.step(3*time.Hour, 0, 0, true))

	require.Empty(t, x.step(time.Hour, 9, 9, true))
	const why = "claims ask for more than the maximum of 3, since 2026-06-01 05:15 UTC"
	require.Equal(t, why, x.step(15*time.Minute, 9, 9, true))
	x.step(40*time.Minute, 0, 0, true) // of which it asks for more for a while
	require.Equal(t, why, x.step(5*time.Minute, 9, 9, true), "still the same")
	require.Empty(t, x.step(2*time.Hour, 0, 0, true))
	assert.Equal(t, 1, x.begins)

	x.step(90*time.Minute, 9, 9, true)
	assert.Equal(t, 2, x.begins, "another one")
	require.Empty(t, x.step(sizing.BucketLength, 9, 9, false), "it has the instances that were configured")

	s.Max = 50
	x = newSteps(s)
	require.Empty(t, x.step(4*time.Hour, 9, 9, true), "a maximum that is high enough")
}

// A pool whose claims have missed for a day, by more than chance makes of the target, says so, until the last day is back at
// it.
func TestTargetMissed(t *testing.T) {
	t.Parallel()
	x := newSteps(sizing.Settings{Min: 1, Max: 100, Target: 0.9})
	require.Empty(t, x.step(23*time.Hour, 4, 2, true), "less than a day says nothing")
	require.Regexp(t, `^\d+ of the 1152 claims of the last day were hits: 50(\.\d+)?%, where the target is 90%$`,
		x.step(2*time.Hour, 4, 2, true))
	for range 24 {
		x.step(time.Hour, 4, 4, true)
	}
	assert.Equal(t, 1, x.begins, "one episode")
	require.Empty(t, x.step(time.Hour, 4, 4, true), "back at the target")

	x = newSteps(sizing.Settings{Min: 1, Max: 100, Target: 0.9})
	x.step(30*time.Hour, 10, 9, true)
	require.Empty(t, x.said, "just what the target allows")

	x = newSteps(sizing.Settings{Min: 1, Max: 100, Target: 0.9})
	x.step(30*time.Hour, 4, 0, false)
	require.Empty(t, x.step(23*time.Hour, 4, 4, true), "what was missed with other sizes")
}

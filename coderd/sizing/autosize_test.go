package sizing_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/prewarm-dev/prewarm/coderd/sizing"
)

var (
	monday   = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	settings = sizing.Settings{Min: 1, Max: 50, Target: 0.99}
)

// hits fills a stretch of history with so many claims per bucket, all of which hit.
func hits(h *sizing.History, from time.Time, buckets, each int) {
	for i := range buckets {
		h.Add(from.Add(time.Duration(i)*sizing.BucketLength), sizing.Bucket{Claims: each, Hits: each})
	}
}

func TestGrowsAtOnceAndShrinksSlowly(t *testing.T) {
	t.Parallel()
	h := sizing.NewHistory(monday)
	now := monday.Add(2 * time.Hour)
	quiet, state := sizing.Step(settings, sizing.State{}, h, now, true)
	require.LessOrEqual(t, quiet.Size, 3)

	hits(h, now, 1, 20)
	now = now.Add(5 * time.Minute)
	busy, state := sizing.Step(settings, state, h, now, true)
	require.Greater(t, busy.Size, quiet.Size+4, "one step later")

	size, most := busy.Size, 0
	for n := range 12 {
		now = now.Add(5 * time.Minute)
		var r sizing.Recommendation
		r, state = sizing.Step(settings, state, h, now, true)
		if n > 3 { // by then it has learnt that claims come in batches
			assert.LessOrEqual(t, r.Size, size, "it only shrinks when nothing comes")
		}
		assert.GreaterOrEqual(t, r.Size, size*3/4, "and by little at a time")
		size, most = r.Size, max(most, r.Size)
	}
	assert.Less(t, size, most, "but it does")
}

// A pool of which nothing is known begins small, and one claim in its first minute does not make it large.
func TestBeginsSmall(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{0, time.Second, time.Minute, 10 * time.Minute} {
		h := sizing.NewHistory(monday)
		r, state := sizing.Step(settings, sizing.State{}, h, monday.Add(after), true)
		assert.LessOrEqual(t, r.Size, 2, after)
		h.Add(monday.Add(after), sizing.Bucket{Claims: 1, Hits: 1})
		r, _ = sizing.Step(settings, state, h, monday.Add(after+time.Minute), true)
		assert.LessOrEqual(t, r.Size, 15, after)
	}
}

// What came in the bucket that has only begun counts whole: a burst is answered now, not when its five minutes are over.
func TestCountsWhatHasJustCome(t *testing.T) {
	t.Parallel()
	for _, into := range []time.Duration{0, time.Second, sizing.BucketLength / 2, sizing.BucketLength - time.Second} {
		h := sizing.NewHistory(monday)
		now := monday.Add(2*time.Hour + into)
		quiet, state := sizing.Step(settings, sizing.State{}, h, now, true)
		h.Add(now, sizing.Bucket{Claims: 20})
		busy, _ := sizing.Step(settings, state, h, now, true)
		assert.Greater(t, busy.Size, quiet.Size+4, "%s into a bucket", into)
	}
}

func TestExpectsWhatCameLastWeek(t *testing.T) {
	t.Parallel()
	h := sizing.NewHistory(monday)
	hits(h, monday.Add(9*time.Hour), 2, 10)
	next := monday.AddDate(0, 0, 7)
	size := func(at time.Time) int {
		r, _ := sizing.Step(settings, sizing.State{}, h, at, false)
		return r.Size
	}
	assert.GreaterOrEqual(t, size(next.Add(8*time.Hour+55*time.Minute)), 10, "ahead of the burst")
	assert.Less(t, size(next.Add(6*time.Hour)), 8, "what a batch may need, and no burst")
	assert.Less(t, size(next.Add(33*time.Hour)), 8, "Tuesday is not Monday")
	assert.GreaterOrEqual(t, size(monday.Add(33*time.Hour)), 10, "but it stands in for it in the first week")
}

// What came every day is there in time, all of it and all the while, and most of it is gone when it is over.
func TestExpectsBurstsWhole(t *testing.T) {
	t.Parallel()
	h, state := sizing.NewHistory(monday), sizing.State{}
	for hour := range 14 * 24 {
		hits(h, monday.Add(time.Duration(hour)*time.Hour), 2, 1)
	}
	for day := range 14 {
		hits(h, monday.AddDate(0, 0, day).Add(2*time.Hour), 1, 30)
	}
	night := monday.AddDate(0, 0, 14).Add(2 * time.Hour)
	var r sizing.Recommendation
	for now := night.Add(-time.Hour); now.Before(night.Add(30 * time.Minute)); now = now.Add(time.Minute) {
		r, state = sizing.Step(settings, state, h, now, true)
		switch {
		case now.Before(night.Add(-12 * time.Minute)):
			assert.Less(t, r.Size, 15, now)
		case !now.Before(night.Add(-6*time.Minute)) && now.Before(night.Add(5*time.Minute)):
			assert.GreaterOrEqual(t, r.Size, 30, now)
		case !now.Before(night.Add(11 * time.Minute)):
			assert.Less(t, r.Size, 15, now)
		}
	}
}

// Where claims come in batches, a pool is larger than their number alone asks for, and a time in which none happened to come
// last week is not taken for one in which none can.
func TestLearnsBatches(t *testing.T) {
	t.Parallel()
	size := func(batch int) int {
		h := sizing.NewHistory(monday)
		for n := range 21 * 24 { // as many claims in either, on average one an hour
			if n%batch == 0 {
				hits(h, monday.Add(time.Duration(n)*time.Hour+time.Duration(n*7%12)*sizing.BucketLength), 1, batch)
			}
		}
		var state sizing.State
		var r sizing.Recommendation
		for n := range 60 {
			r, state = sizing.Step(settings, state, h, monday.AddDate(0, 0, 21).Add(time.Duration(n)*time.Minute), false)
		}
		return r.Size
	}
	single, batches := size(1), size(6)
	assert.LessOrEqual(t, single, 4)
	assert.Greater(t, batches, single+1)
}

// A run at the same time every night says nothing about how the claims of the day come; a single one counts as a batch.
func TestNightlyRunsAreNoBatches(t *testing.T) {
	t.Parallel()
	spread := func(runs ...int) float64 {
		h := sizing.NewHistory(monday)
		for n := range 10 {
			for k := range 12 { // unevenly
				hits(h, monday.AddDate(0, 0, n).Add(9*time.Hour+time.Duration(2*k)*sizing.BucketLength), 1, 2)
			}
		}
		for _, day := range runs {
			hits(h, monday.AddDate(0, 0, day).Add(2*time.Hour), 1, 40)
		}
		_, state := sizing.Step(settings, sizing.State{}, h, monday.AddDate(0, 0, 10), false)
		return state.Spread.Ratio()
	}
	none, once, nightly := spread(), spread(1), spread(1, 2, 3, 4, 5, 6, 7, 8, 9)
	assert.Greater(t, once, none+0.3, "nobody could know of the first")
	assert.InDelta(t, once, nightly, 0.1, "but of the others")
}

// The target is for all claims together: where few come, more of them may miss, and where most come, fewer.
func TestBusyTimesComeFirst(t *testing.T) {
	t.Parallel()
	h := sizing.NewHistory(monday)
	for hour := range 14 * 24 {
		at := monday.Add(time.Duration(hour) * time.Hour)
		if hour%24 >= 9 && hour%24 < 17 {
			hits(h, at, 12, 3)
		} else {
			hits(h, at, 1, 1)
		}
	}
	size := func(hour int, quiet bool) int {
		known := h
		if quiet { // as many at night, and no more by day: then the night is what matters
			known = sizing.NewHistory(monday)
			for hour := range 14 * 24 {
				hits(known, monday.Add(time.Duration(hour)*time.Hour), 1, 1)
			}
		}
		r, _ := sizing.Step(settings, sizing.State{}, known, monday.AddDate(0, 0, 14).Add(time.Duration(hour)*time.Hour-30*time.Minute), false)
		return r.Size
	}
	assert.Less(t, size(4, false), size(4, true))
	assert.Greater(t, size(13, false), size(4, false))
}

// Nine o'clock stays nine o'clock where the clocks change between two weeks.
func TestSameTimeIsLocal(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	before := time.Date(2026, 10, 19, 9, 0, 0, 0, berlin) // the clocks go back on the 25th
	h := sizing.NewHistory(before.Add(-9 * time.Hour))
	hits(h, before, 2, 10)
	after := time.Date(2026, 10, 26, 8, 55, 0, 0, berlin)
	for location, ahead := range map[*time.Location]bool{berlin: true, time.UTC: false} {
		s := settings
		s.Location = location
		r, _ := sizing.Step(s, sizing.State{}, h, after, false)
		assert.Equal(t, ahead, r.Size >= 10, location)
	}
}

func TestFeedback(t *testing.T) {
	t.Parallel()
	boost := func(known time.Duration, misses int, feedback bool) float64 {
		h := sizing.NewHistory(monday.Add(-known))
		_, state := sizing.Step(settings, sizing.State{}, h, monday, feedback)
		now := monday
		for n := range 100 { // singly
			b := sizing.Bucket{Claims: 1, Hits: 1}
			if n < misses {
				b.Hits = 0
			}
			h.Add(now, b)
			now = now.Add(sizing.BucketLength)
		}
		r, _ := sizing.Step(settings, state, h, now.Add(sizing.BucketLength), feedback)
		return r.Boost
	}
	const known = 48 * time.Hour
	assert.Less(t, boost(known, 0, true), 1.0, "better than the target: less will do")
	assert.InDelta(t, 1, boost(known, 1, true), 1e-9, "one in a hundred is what the target allows")
	assert.Greater(t, boost(known, 5, true), 1.04)
	assert.Greater(t, boost(known, 10, true), 1.1)
	assert.Greater(t, boost(known, 20, true), boost(known, 5, true))
	assert.InDelta(t, 1, boost(known, 20, false), 0, "misses of other sizes say nothing")
	assert.InDelta(t, 1, boost(time.Hour, 20, true), 0, "nor do those of the first day, which nobody could know of")
}

// Whatever happened, a size is within its bounds, and the same history gives the same size.
func TestStepStaysWithinBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := sizing.Settings{Min: rapid.IntRange(0, 5).Draw(t, "min"), Target: rapid.Float64Range(0.01, 0.999).Draw(t, "target")}
		s.Max = s.Min + rapid.IntRange(1, 30).Draw(t, "room")
		h, state, now := sizing.NewHistory(monday), sizing.State{}, monday
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(1, 3*24*60).Draw(t, "minutes")) * time.Minute)
			claims := rapid.IntRange(0, 60).Draw(t, "claims")
			h.Add(now.Add(-time.Minute), sizing.Bucket{
				Claims: claims, Hits: rapid.IntRange(0, claims).Draw(t, "hits"), Provisions: claims,
				ProvisionSeconds: float64(claims) * rapid.Float64Range(0, 4000).Draw(t, "seconds"),
			})
			again, _ := sizing.Step(s, state, h, now, true)
			r, next := sizing.Step(s, state, h, now, true)
			if r.Size < s.Min || r.Size > s.Max || r != again {
				t.Fatalf("%+v under %+v, then %+v", r, s, again)
			}
			state = next
		}
	})
}

package sizing

import (
	"math"
	"time"
)

// Spread is what Step has learnt about how unevenly claims come: the variance of the claims of a bucket over their mean. 1 is
// singly and independently; batches of n raise it to about n, and to 2n where batches differ.
type Spread struct {
	Through time.Time // buckets that begin before it are in
	Squares float64   // of the differences from the mean of the buckets around
	Mean    float64   // of these means
}

const (
	// spreadHalf is the time in which what was learnt counts half.
	spreadHalf = week
	// neighbours are the buckets on either side that say what the mean is.
	neighbours = 3
	// singly is how many claims that came singly are assumed to have been seen before the first.
	singly = 30
	// fewClaims are too few to say that a large batch is a burst.
	fewClaims = 100
	// largeBatch is how many standard deviations above the mean a bucket counts. With fewer, the large batches that geometric
	// numbers make are cut off, and the larger the batches are, the more so.
	largeBatch = 4
	// ratioError is the standard error of a spread that is learnt from one batch, as a part of what it is above 1, where batches
	// have geometric numbers: sqrt(5). So much of it as `careful` is added, for a size that is too small costs more than one that
	// is too large.
	ratioError = 2.236
	careful    = 0.4
)

// Ratio is the spread, at least 1.
func (s Spread) Ratio() float64 { return max(1, (s.Squares+singly)/(s.Mean+singly)) }

// Careful is the spread, by a part of its standard error larger: the fewer batches were seen, the larger.
func (s Spread) Careful() float64 {
	ratio := s.Ratio()
	batches := (s.Mean + singly) / batchOf(ratio)
	return ratio + (ratio-1)*ratioError*careful/math.Sqrt(batches)
}

// batchOf is the mean number of claims in a batch, where geometric numbers make a spread.
func batchOf(spread float64) float64 { return (spread + 1) / 2 }

// learn adds the buckets whose neighbours are complete by now.
func (s Spread) learn(h *History, now time.Time) Spread {
	i := max(neighbours, h.index(s.Through))
	last := h.index(now.Add(-settle)) - neighbours // exclusive
	fade := math.Exp2(-float64(BucketLength) / float64(spreadHalf))
	for ; i < last; i++ {
		s.Through = h.since.Add(time.Duration(i+1) * BucketLength)
		mean, over := s.around(h, i)
		claims, limit := float64(h.bucket(i).Claims), s.limit(mean)
		if over == 0 || recurs(h, i, limit) {
			continue
		}
		off := min(claims, limit) - mean
		// The mean of n others differs, too, by an n-th of the variance.
		s.Squares = s.Squares*fade + off*off/(1+1/over)
		s.Mean = s.Mean*fade + (mean*over+claims)/(over+1)
	}
	return s
}

// limit is how many claims of a bucket count where so many are expected: one burst teaches no more than a large batch.
func (s Spread) limit(mean float64) float64 {
	ratio := s.Ratio()
	if s.Mean < fewClaims {
		ratio = max(ratio, firstSpread)
	}
	return mean + largeBatch*math.Sqrt(ratio*(mean+ratio))
}

// around is the mean of the buckets on either side, without bursts that recur, and of how many buckets.
func (s Spread) around(h *History, i int) (mean, over float64) {
	for n := 1; n <= neighbours; n++ {
		mean += float64(h.bucket(i-n).Claims+h.bucket(i+n).Claims) / (2 * neighbours)
	}
	limit, claims := s.limit(mean), 0.0
	for n := i - neighbours; n <= i+neighbours; n++ {
		if n != i && !recurs(h, n, limit) {
			claims, over = claims+float64(h.bucket(n).Claims), over+1
		}
	}
	return claims / max(1, over), over
}

// recurs says whether a bucket is above a limit, and was a day or a week before, too, or one beside it: a nightly run. That is
// no chance, and the forecast knows of it (estimator.burst), so it says nothing about how unevenly other claims come.
func recurs(h *History, i int, limit float64) bool {
	above := func(i int) bool { return float64(h.bucket(i).Claims) > limit }
	if !above(i) {
		return false
	}
	for _, ago := range []time.Duration{day, week} {
		then := i - int(ago/BucketLength)
		if above(then-1) || above(then) || above(then+1) {
			return true
		}
	}
	return false
}

// unlikely is a number of claims that is hardly a coincidence where so many are expected: two standard deviations more, and a
// batch.
func unlikely(mean, spread float64) float64 { return mean + 2*math.Sqrt(spread*(mean+spread)) }

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
	// ratioError is the standard error of a spread that is learnt from one batch, as a part of what it is above 1, where batches
	// have geometric numbers: sqrt(5). Half of it is added, for a size that is too small costs more than one that is too large.
	ratioError = 2.236
)

// Ratio is the spread, at least 1.
func (s Spread) Ratio() float64 { return max(1, (s.Squares+singly)/(s.Mean+singly)) }

// Careful is the spread, by half of its standard error larger: the fewer batches were seen, the larger.
func (s Spread) Careful() float64 {
	ratio := s.Ratio()
	batches := (s.Mean + singly) / batchOf(ratio)
	return ratio + (ratio-1)*ratioError/2/math.Sqrt(batches)
}

// batchOf is the mean number of claims in a batch, where geometric numbers make a spread.
func batchOf(spread float64) float64 { return (spread + 1) / 2 }

// learn adds the buckets whose neighbours are complete by now.
func (s Spread) learn(h *History, now time.Time) Spread {
	i := max(neighbours, h.index(s.Through))
	last := h.index(now.Add(-settle)) - neighbours // exclusive
	fade := math.Exp2(-float64(BucketLength) / float64(spreadHalf))
	for ; i < last; i++ {
		around := 0.0
		for n := 1; n <= neighbours; n++ {
			around += float64(h.bucket(i-n).Claims + h.bucket(i+n).Claims)
		}
		mean := around / (2 * neighbours)
		off := float64(h.bucket(i).Claims) - mean
		ratio := s.Ratio()
		if s.Mean < fewClaims {
			ratio = max(ratio, firstSpread)
		}
		off = min(off, 3*math.Sqrt(ratio*(mean+ratio))) // one burst teaches no more than a large batch
		// The mean of 2n others differs, too, by a 2n-th of the variance.
		s.Squares = s.Squares*fade + off*off/(1+1.0/(2*neighbours))
		s.Mean = s.Mean*fade + (around+float64(h.bucket(i).Claims))/(2*neighbours+1)
		s.Through = h.since.Add(time.Duration(i+1) * BucketLength)
	}
	return s
}

// unlikely is a number of claims that is hardly a coincidence where so many are expected: two standard deviations more, and a
// batch.
func unlikely(mean, spread float64) float64 { return mean + 2*math.Sqrt(spread*(mean+spread)) }

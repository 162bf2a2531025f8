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
)

// Ratio is the spread, at least 1.
func (s Spread) Ratio() float64 { return max(1, (s.Squares+singly)/(s.Mean+singly)) }

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
		off = min(off, 3*math.Sqrt(s.Ratio()*(mean+s.Ratio()))) // one burst teaches no more than a large batch
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

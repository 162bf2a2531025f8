package sizing

import (
	"math"
	"sort"
)

// Miss is what becomes of a claim that finds nothing ready.
type Miss string

// What a miss does decides how much of the pool's refill it takes.
const (
	// MissWaits: it takes the next workspace that becomes ready, and one more is made for it (claims of mode prefer).
	MissWaits Miss = "waits"
	// MissCold: it goes elsewhere, and the pool is as if it had never come (claims of mode require).
	MissCold Miss = "cold"
)

// HitRate is the probability that a claim finds a prebuild ready in a pool of a size that refills at once, where claims come
// singly and independently and `load` of them are expected in the time that a prebuild takes to provide.
//
// Where a miss waits, a claim hits if fewer than `size` came before it within one provision time: P(Poisson(load) <= size-1).
// Where it goes cold, the pool is a loss system with `size` servers: 1 - ErlangB(size, load).
func HitRate(miss Miss, size int, load float64) float64 {
	switch {
	case size <= 0:
		return 0
	case load <= 0:
		return 1
	case miss == MissCold:
		return 1 - erlangB(size, load)
	default:
		return poissonAtMost(size-1, load)
	}
}

// SizeFor is the smallest size with at least the target hit rate (0 to 1, exclusive), and at most `most`.
func SizeFor(miss Miss, load, target float64, most int) int {
	// The hit rate grows with the size.
	return sort.Search(most, func(size int) bool { return HitRate(miss, size, load) >= target })
}

// erlangB is the probability that all servers are taken, by the usual recursion, which stays between 0 and 1 at any load.
func erlangB(servers int, load float64) float64 {
	blocked := 1.0
	for n := 1; n <= servers; n++ {
		blocked = load * blocked / (float64(n) + load*blocked)
	}
	return blocked
}

// poissonAtMost is P(X <= n), summed from the most probable term downwards, so that nothing underflows at a large mean.
func poissonAtMost(n int, mean float64) float64 {
	if n < 0 {
		return 0
	}
	start := min(n, int(mean))
	logStart := float64(start)*math.Log(mean) - mean - logFactorial(start)
	sum, term := 1.0, 1.0
	for k := start; k > 0 && term > 1e-18*sum; k-- {
		term *= float64(k) / mean
		sum += term
	}
	term = 1
	for k := start + 1; k <= n && term > 1e-18*sum; k++ {
		term *= mean / float64(k)
		sum += term
	}
	return min(1, sum*math.Exp(logStart))
}

func logFactorial(n int) float64 {
	v, _ := math.Lgamma(float64(n) + 1)
	return v
}

// coveringSize is the smallest size with which a claim finds a prebuild ready with probability p, where the rate is not known
// but counted, and claims come in batches: `count` claims in `exposure` provision times give a gamma belief about the rate of
// batches, a batch has a geometric number of claims, and `spread` is the variance of claims over their mean that this makes, 1
// where they come singly. With much data and single claims this is the Poisson model; with little it is wider, by as much as
// the rate is uncertain. Before a claim came those of one provision time, and those of its own batch that were quicker.
func coveringSize(count, exposure, spread, p float64, most int) int {
	if count <= 0 || exposure <= 0 {
		return 0
	}
	// N, the claims of a provision time, has the generating function ((1-qz) / (1+b - (q+b)z))^r. From its logarithm's derivative
	// come the probabilities, each from the two before it; they are kept divided by the first, which may be too small to hold.
	q := (spread - 1) / (spread + 1)
	r, b := count*(1-q), 1/exposure
	w := (q + b) / (1 + b)
	logScale := -r * math.Log1p(b)
	before, n := 0.0, 1.0 // P(N = k-1), P(N = k)
	own := 0.0            // P(N and those of the own batch, itself too, are k)
	within := 0.0
	for k := range most {
		own = q*own + (1-q)*n // now of k+1
		within += own
		if math.Log(within)+logScale >= math.Log(p) {
			return k + 1
		}
		f := float64(k)
		before, n = n, (((q+w)*f+r*(w-q))*n-q*w*(f-1)*before)/(f+1)
		if n > 1e200 {
			before, n, own, within, logScale = before/1e200, n/1e200, own/1e200, within/1e200, logScale+200*math.Ln10
		}
	}
	return most
}

// ThinSize is a size for a target hit rate where only few claims are known: `claims` in so many provision times.
func ThinSize(claims int, provisionTimes, target float64, most int) int {
	return coveringSize(float64(claims)+0.5, provisionTimes, 1, target, most)
}

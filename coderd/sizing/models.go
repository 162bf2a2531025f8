package sizing

import "math"

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
	// The hit rate grows with the size, so the answer can be halved down to.
	low, high := 0, most
	for low < high {
		middle := (low + high) / 2
		if HitRate(miss, middle, load) >= target {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low
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

// coveringSize is the smallest size that covers a window with probability p, where the rate is not known but counted: `count`
// claims in `exposure` windows give a gamma belief about it, and the claims of one more window are then negative binomial.
// With much data this is the Poisson model; with little it is wider, by as much as the rate is uncertain. `spread` is the
// variance of claims over their mean, 1 where they come singly: where they come in batches it is wider, too.
func coveringSize(count, exposure, spread, p float64, most int) int {
	if count <= 0 || exposure <= 0 {
		return 0
	}
	// X ~ NB with the mean of a window and variance/mean w. P(0) = w^-shape.
	w := spread * (1 + 1/exposure)
	shape := count / exposure / (w - 1)
	logTerm := -shape * math.Log(w)
	below := 0.0
	for n := range most {
		below += math.Exp(logTerm)
		if below >= p {
			return n + 1 // n claims are covered by n+1: the last to come finds one ready, too
		}
		logTerm += math.Log((shape + float64(n)) * (1 - 1/w) / float64(n+1))
	}
	return most
}

// ThinSize is a size for a target hit rate where only few claims are known: `claims` in so many provision times.
func ThinSize(claims int, provisionTimes, target float64, most int) int {
	return coveringSize(float64(claims)+0.5, provisionTimes, 1, target, most)
}

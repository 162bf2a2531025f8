package sizing

import (
	"math"
	"time"
)

// Settings of autosize.
type Settings struct {
	Min, Max int
	Target   float64        // hit rate aimed at, between 0 and 1
	Location *time.Location // in which "the same time" repeats; nil: UTC
}

// State is what the sizer remembers from one step to the next; the zero State knows nothing yet.
type State struct {
	Size float64 // before rounding; what a shrink starts from
	// Boost multiplies every size: feedback from misses, as a logarithm. Each miss raises it and each hit lowers it, so much
	// that it comes to rest where misses are as frequent as the target allows.
	Boost   float64
	Through time.Time // outcomes before it have been fed back
	At      time.Time // of the step

	Spread    Spread
	Shortfall Shortfall
}

// Recommendation is a size and how it came about.
type Recommendation struct {
	Size     int     // desired
	Forecast int     // by the same time in past weeks (or days, in the first week)
	Recent   int     // by the last half hour
	Boost    float64 // feedback, as a factor
	Reason   string  // which of them decided: forecast, recent, shrinking, minimum, maximum, announced
	// Unattainable says, for people, why the target is not reached; empty while nothing is wrong.
	Unattainable string
}

const (
	day  = 24 * time.Hour
	week = 7 * day
	// pace is how often sizes are computed, at least.
	pace = time.Minute
	// shrinkHalf is the time in which a size that is no longer needed halves, and strangeHalf while nothing is known about this
	// time of day.
	shrinkHalf, strangeHalf = 10 * time.Minute, 4 * time.Hour
	// gain of the feedback: how much a miss adds to the logarithm of the boost, in units of the target, where claims come
	// singly. After `forget` claims a boost is e times smaller: what was missed before the models knew better says little.
	gain                 = 0.012
	forget               = 3000.0
	leastBoost, maxBoost = -0.7, 1.2
	settle               = BucketLength // outcomes are complete by then
	// strange is how long nothing is fed back: on the first day all misses are of what nobody could know.
	strange = day + time.Hour
)

// Step sizes a pool at an instant, given all that has happened before it. `feedback` says whether the pool of the history had
// the sizes of earlier steps: otherwise its misses say nothing about them (a forecast only).
func Step(s Settings, state State, h *History, now time.Time, feedback bool) (Recommendation, State) {
	state.Spread = state.Spread.learn(h, now)
	state.Boost, state.Through = feedBack(s, state, h, now, feedback)
	r := Recommendation{Boost: math.Exp(state.Boost)}

	e := estimator{
		Settings: s, h: h, now: now, span: max(h.ProvisionTime(now), time.Second), spread: state.Spread.Careful(), mean: h.rate(now),
	}
	f := e.forecast()
	latest := e.latest(f)
	steady, burst := max(f.typical, latest)*r.Boost, f.burst*r.Boost
	r.Forecast, r.Recent = int(math.Round(max(f.typical, f.burst)*r.Boost)), int(math.Round(latest*r.Boost))
	need := max(steady, burst)
	r.Unattainable, state.Shortfall = s.shortfall(state.Shortfall, h, now, state.Through, need > float64(s.Max), feedback)
	r.Reason = "forecast"
	if latest > max(f.typical, f.burst) {
		r.Reason = "recent"
	}
	if !state.At.IsZero() { // grows at once, shrinks slowly; but what a burst needed ends with it
		half := shrinkHalf
		if f.exposure == 0 {
			half = strangeHalf
		}
		slow := min(state.Size, float64(s.Max)) * math.Exp2(-float64(now.Sub(state.At))/float64(half))
		if slow > need {
			r.Reason = "shrinking"
		}
		steady = max(steady, slow)
	}
	state.Size, state.At = steady, now
	need = max(steady, burst)
	r.Size = int(math.Round(need))
	if r.Size < s.Min {
		r.Size, r.Reason = s.Min, "minimum"
	}
	if r.Size > s.Max {
		r.Size, r.Reason = s.Max, "maximum"
	}
	return r, state
}

// WithAnnounced is the recommendation where so many claims are announced: at least as many, within the maximum. What is
// announced says nothing about the others, so it is no part of what the sizer learns.
func (r Recommendation) WithAnnounced(s Settings, announced int) Recommendation {
	if announced = min(announced, s.Max); announced > r.Size {
		r.Size, r.Reason = announced, "announced"
	}
	return r
}

// feedBack moves the boost by the outcomes that are new since the last step.
func feedBack(s Settings, state State, h *History, now time.Time, feedback bool) (boost float64, through time.Time) {
	through = now.Add(-settle).Truncate(BucketLength)
	if !feedback || state.Through.IsZero() || now.Sub(h.since) < strange {
		return state.Boost, through
	}
	if !through.After(state.Through) {
		return state.Boost, state.Through
	}
	fresh := h.Total(state.Through, through)
	batch := batchOf(state.Spread.Ratio()) // where claims come in batches, misses do, too: each says less
	boost = state.Boost * math.Exp(-float64(fresh.Claims)/forget/batch)
	boost += gain / batch * (float64(fresh.Claims-fresh.Hits)*s.Target - float64(fresh.Hits)*(1-s.Target))
	return min(maxBoost, max(leastBoost, boost)), through
}

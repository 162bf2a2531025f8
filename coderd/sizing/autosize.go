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
	Size float64 // before rounding up; what a shrink starts from
	// Boost multiplies every size: feedback from misses, as a logarithm. Each miss raises it and each hit lowers it, so much
	// that it comes to rest where misses are as frequent as the target allows.
	Boost   float64
	Through time.Time // outcomes before it have been fed back
	At      time.Time // of the step
}

// Recommendation is a size and how it came about.
type Recommendation struct {
	Size     int     // desired
	Forecast int     // by the same time in past weeks (or days, in the first week)
	Recent   int     // by the last half hour
	Boost    float64 // feedback, as a factor
	Reason   string  // which of them decided: forecast, recent, shrinking, minimum, maximum
}

const (
	day    = 24 * time.Hour
	week   = 7 * day
	weeks  = 4                // how many past weeks a forecast looks at
	recent = 30 * time.Minute // what is going on now
	// around is how much earlier or later than last week the same thing may happen today.
	around = BucketLength
	// smooth is how far around the same time the rate is counted, on either side.
	smooth = 15 * time.Minute
	// pace is how often sizes are computed, at least: what happens until the next step is to be covered, too.
	pace = time.Minute
	// shrinkHalf is the time in which a size that is no longer needed halves.
	shrinkHalf = 30 * time.Minute
	// gain of the feedback: how much a miss adds to the logarithm of the boost, in units of the target.
	gain                 = 0.03
	leastBoost, maxBoost = 0, 1.2
	settle               = BucketLength // outcomes are complete by then
)

// Step sizes a pool at an instant, given all that has happened before it. `feedback` says whether the pool of the history had
// the sizes of earlier steps: otherwise its misses say nothing about them (a forecast only).
func Step(s Settings, state State, h *History, now time.Time, feedback bool) (Recommendation, State) {
	window := h.ProvisionTime(now) + pace
	state.Boost, state.Through = feedBack(s, state, h, now, feedback)
	r := Recommendation{Boost: math.Exp(state.Boost)}

	forecast, rate := s.forecast(h, now, window)
	latest := s.latest(h, now, window, rate)
	r.Forecast, r.Recent = int(math.Ceil(forecast*r.Boost)), int(math.Ceil(latest*r.Boost))
	need := max(forecast, latest) * r.Boost
	r.Reason = "forecast"
	if latest > forecast {
		r.Reason = "recent"
	}
	if !state.At.IsZero() { // grows at once, shrinks slowly
		slow := state.Size * math.Exp2(-float64(now.Sub(state.At))/float64(shrinkHalf))
		if slow > need {
			need, r.Reason = slow, "shrinking"
		}
	}
	state.Size, state.At = need, now
	r.Size = int(math.Ceil(need - 1e-9))
	if r.Size < s.Min {
		r.Size, r.Reason = s.Min, "minimum"
	}
	if r.Size > s.Max {
		r.Size, r.Reason = s.Max, "maximum"
		state.Size = float64(s.Max)
	}
	return r, state
}

// forecast is the size that the same time in past weeks asks for, and the claims per window then.
func (s Settings) forecast(h *History, now time.Time, window time.Duration) (size, rate float64) {
	var count, exposure, most float64
	for _, then := range s.before(h, now) {
		from, to := then.Add(-smooth), then.Add(window+smooth)
		if from.Before(h.since) {
			from = h.since
		}
		if to.After(now) {
			to = now
		}
		if from.Before(to) {
			count += h.claims(from, to)
			exposure += float64(to.Sub(from)) / float64(window)
		}
		for shift := -around; shift <= around; shift += around {
			most = max(most, h.claims(then.Add(shift), then.Add(shift+window)))
		}
	}
	if exposure == 0 {
		return 0, -1
	}
	typical := gammaPoissonSize(count, exposure, s.Target, s.Max)
	return max(float64(typical), most), count / exposure
}

// before are the instants that now is like: the same time of the same day in past weeks; while less than a week is known, of
// past days.
func (s Settings) before(h *History, now time.Time) []time.Time {
	location := s.Location
	if location == nil {
		location = time.UTC
	}
	local := now.In(location) // so that nine o'clock stays nine o'clock when summer ends
	var like []time.Time
	for n := 1; n <= weeks; n++ {
		if then := local.AddDate(0, 0, -7*n); !then.Before(h.since) {
			like = append(like, then)
		}
	}
	if len(like) > 0 {
		return like
	}
	for n := 1; n < 7; n++ {
		if then := local.AddDate(0, 0, -n); !then.Before(h.since) {
			like = append(like, then)
		}
	}
	return like
}

// latest is the size that the last half hour asks for. `rate` is what past weeks make expect per window, below 0 for nothing.
func (s Settings) latest(h *History, now time.Time, window time.Duration, rate float64) float64 {
	from := now.Add(-recent).Truncate(BucketLength)
	if from.Before(h.since) {
		from = h.since
	}
	exposure := float64(now.Sub(from)) / float64(window)
	if exposure <= 0 {
		return 0
	}
	prior := 0.5 // Jeffreys: half a claim more than was seen
	if rate >= 0 {
		prior = min(prior, rate*exposure)
	}
	return float64(gammaPoissonSize(h.claims(from, now)+prior, exposure, s.Target, s.Max))
}

// feedBack moves the boost by the outcomes that are new since the last step.
func feedBack(s Settings, state State, h *History, now time.Time, feedback bool) (boost float64, through time.Time) {
	through = now.Add(-settle).Truncate(BucketLength)
	if !feedback || state.Through.IsZero() {
		return state.Boost, through
	}
	if !through.After(state.Through) {
		return state.Boost, state.Through
	}
	fresh := h.Total(state.Through, through)
	boost = state.Boost + gain*(float64(fresh.Claims-fresh.Hits)*s.Target-float64(fresh.Hits)*(1-s.Target))
	return min(maxBoost, max(leastBoost, boost)), through
}

package sizing

import (
	"math"
	"slices"
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

	Spread    Spread
	Shortfall Shortfall
}

// Recommendation is a size and how it came about.
type Recommendation struct {
	Size     int     // desired
	Forecast int     // by the same time in past weeks (or days, in the first week)
	Recent   int     // by the last half hour
	Boost    float64 // feedback, as a factor
	Reason   string  // which of them decided: forecast, recent, shrinking, minimum, maximum
	// Unattainable says, for people, why the target is not reached; empty while nothing is wrong.
	Unattainable string
}

const (
	day    = 24 * time.Hour
	week   = 7 * day
	weeks  = 4                // how many past weeks a forecast looks at
	recent = 30 * time.Minute // what is going on now
	// around is how much earlier or later than last week the same thing may happen today.
	around = BucketLength
	// smooth is how far around the same time the rate is counted, on either side: at least so far, and where little came, up
	// to widest, until as much is known as `enough` claims say that come singly.
	smooth, widest = 15 * time.Minute, 2 * time.Hour
	enough         = 20
	// pace is how often sizes are computed, at least: what happens until the next step is to be covered, too.
	pace = time.Minute
	// shrinkHalf is the time in which a size that is no longer needed halves.
	shrinkHalf = 30 * time.Minute
	// gain of the feedback: how much a miss adds to the logarithm of the boost, in units of the target. After `forget` claims
	// a boost is e times smaller: what was missed before the models knew better says little.
	gain                 = 0.03
	forget               = 3000.0
	leastBoost, maxBoost = 0, 1.2
	settle               = BucketLength // outcomes are complete by then
)

// Step sizes a pool at an instant, given all that has happened before it. `feedback` says whether the pool of the history had
// the sizes of earlier steps: otherwise its misses say nothing about them (a forecast only).
func Step(s Settings, state State, h *History, now time.Time, feedback bool) (Recommendation, State) {
	span := max(h.ProvisionTime(now), time.Second)
	state.Boost, state.Through = feedBack(s, state, h, now, feedback)
	state.Spread = state.Spread.learn(h, now)
	r := Recommendation{Boost: math.Exp(state.Boost)}

	f := s.forecast(h, now, span, state.Spread.Ratio())
	latest := s.latest(h, now, span, f, state.Spread.Ratio())
	steady, burst := max(f.typical, latest)*r.Boost, f.burst*r.Boost
	r.Forecast, r.Recent = int(math.Ceil(max(f.typical, f.burst)*r.Boost)), int(math.Ceil(latest*r.Boost))
	need := max(steady, burst)
	r.Unattainable, state.Shortfall = s.shortfall(state.Shortfall, h, now, state.Through, need > float64(s.Max), feedback)
	r.Reason = "forecast"
	if latest > max(f.typical, f.burst) {
		r.Reason = "recent"
	}
	if !state.At.IsZero() { // grows at once, shrinks slowly; but what a burst needed ends with it
		slow := min(state.Size, float64(s.Max)) * math.Exp2(-float64(now.Sub(state.At))/float64(shrinkHalf))
		if slow > need {
			r.Reason = "shrinking"
		}
		steady = max(steady, slow)
	}
	state.Size, state.At = steady, now
	need = max(steady, burst)
	r.Size = int(math.Ceil(need - 1e-9))
	if r.Size < s.Min {
		r.Size, r.Reason = s.Min, "minimum"
	}
	if r.Size > s.Max {
		r.Size, r.Reason = s.Max, "maximum"
	}
	return r, state
}

// forecast is what past weeks ask for.
type forecast struct {
	typical  float64       // size
	burst    float64       // size for what comes at this time again and again; 0: nothing does
	like     []time.Time   // the instants in the past that now is like
	span     time.Duration // of which rate is the expected number of claims
	rate     float64
	exposure float64 // spans that the rate was counted over; 0: nothing is known
}

// forecast is made of the same time in past weeks.
func (s Settings) forecast(h *History, now time.Time, span time.Duration, spread float64) forecast {
	f := forecast{like: s.before(h, now), span: span}
	window := span + pace
	var count float64
	for width := smooth; ; width *= 2 {
		count, f.exposure = f.count(h, now, width, window+width, spread)
		if count >= enough*spread || width >= widest {
			break
		}
	}
	if f.exposure == 0 {
		return f
	}
	// What came within a short time in most of these weeks, far above what was around it, is no coincidence. It will come
	// again, and may be larger than those seen, by the less the more were seen.
	most := f.peaks(h, window)
	if most[(len(most)-1)/2] > unlikely(count/f.exposure*float64(window)/float64(span), spread) {
		largest := most[len(most)-1]
		f.burst = largest + math.Sqrt(largest/float64(len(most)))
	}
	f.rate = count / f.exposure
	f.typical = float64(coveringSize(count, f.exposure, spread, s.Target, s.Max+1)) // one more: then it is seen to be above
	return f
}

// count is the claims from so long before the same time until so long after, and over how many spans they were counted. A
// bucket that is far above the others counts as a large one of them: a burst says nothing about the time around it.
func (f forecast) count(h *History, now time.Time, before, after time.Duration, spread float64) (claims, spans float64) {
	each := func(visit func(claims float64)) (n float64) {
		for _, then := range f.like {
			first, last := max(0, h.index(then.Add(-before))), min(h.index(then.Add(after)), h.index(now)-1)
			for i := first; i <= last; i++ {
				visit(float64(h.bucket(i).Claims))
				n++
			}
		}
		return n
	}
	sum, most := 0.0, make([]float64, 0, weeks+3)
	n := each(func(claims float64) {
		sum += claims
		if len(most) < len(f.like) { // as many as there are weeks may be bursts
			most = append(most, claims)
		} else if i := lowest(most); claims > most[i] {
			most[i] = claims
		}
	})
	for _, claims := range most {
		sum -= claims
	}
	limit := unlikely(sum/max(1, n-float64(len(most))), spread)
	for _, c := range most {
		claims += min(c, limit)
	}
	return sum + claims, n * float64(BucketLength) / float64(f.span)
}

func lowest(of []float64) int {
	at := 0
	for i := range of {
		if of[i] < of[at] {
			at = i
		}
	}
	return at
}

// peaks is the most claims that each of the past weeks had in a window about the same time, in order.
func (f forecast) peaks(h *History, window time.Duration) []float64 {
	most := make([]float64, 0, len(f.like))
	for _, then := range f.like {
		peak := 0.0
		for shift := -around; shift <= around; shift += pace { // a bucket that is cut counts in part: some shift has it whole
			peak = max(peak, h.claims(then.Add(shift), then.Add(shift+window)))
		}
		most = append(most, peak)
	}
	slices.Sort(most)
	return most
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

// latest is the size that the last half hour asks for: the forecast, and by how much the last half hour was above what past
// weeks had then. What chance makes of such a difference is taken off it (a Stein estimate); 0 where nothing is left.
func (s Settings) latest(h *History, now time.Time, span time.Duration, f forecast, spread float64) float64 {
	from := now.Add(-recent).Truncate(BucketLength)
	if from.Before(h.since) {
		from = h.since
	}
	exposure := float64(now.Sub(from)) / float64(span)
	if exposure <= 0 {
		return 0
	}
	count := h.sofar(from, now)
	if f.exposure == 0 {
		return float64(coveringSize(count+0.5, exposure, spread, s.Target, s.Max+1)) // Jeffreys: half a claim more than was seen
	}
	expected := 0.0
	for _, then := range f.like {
		expected += h.claims(then.Add(-now.Sub(from)), then) / float64(len(f.like))
	}
	surplus := count - expected
	if surplus <= 0 {
		return 0
	}
	surplus -= spread * (expected + 0.5) / surplus
	if surplus <= 0 {
		return 0
	}
	both := f.exposure + exposure
	return float64(coveringSize((f.rate+surplus/exposure)*both, both, spread, s.Target, s.Max+1))
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
	boost = state.Boost * math.Exp(-float64(fresh.Claims)/forget)
	boost += gain * (float64(fresh.Claims-fresh.Hits)*s.Target - float64(fresh.Hits)*(1-s.Target))
	return min(maxBoost, max(leastBoost, boost)), through
}

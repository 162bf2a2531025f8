package sizing

import (
	"cmp"
	"math"
	"slices"
	"time"
)

const (
	weeks  = 4                // how many past weeks a forecast looks at
	recent = 30 * time.Minute // what is going on now
	// around is how much earlier or later than last week the same thing may happen today.
	around = BucketLength
	// smooth is how far around the same time the rate is counted, on either side: at least so far, and where little came, up
	// to widest, until as much is known as `enough` claims say that come singly. Before that, other days are asked that are as
	// busy around this time, within `alike` times, in the last `fortnight`; `beside` is how far around it they are compared.
	smooth, widest = 15 * time.Minute, time.Hour
	enough         = 40
	alike          = 2.0
	beside         = 3 * time.Hour
	fortnight      = 14 // days
	// level is the time by which today is compared with the days like it. It counts as if so many batches had come as expected:
	// less where nothing is known but other days of the week.
	level                    = 6 * time.Hour
	knownLevel, strangeLevel = 8.0, 1.0
	mostLevel                = 2.0
	// surely is how many times what chance makes of a surplus is taken off it.
	surely = 4.0
	// firstSpread is taken for the spread on the first day, where that has not yet been seen to be more.
	firstSpread = 3.0
	// A miss at a quiet time may be so much more likely than the target allows, up to mostMissed, and one at a busy time must
	// be so much less.
	dearest, cheapest = 0.1, 20.0
	mostMissed        = 0.2
)

// estimator is what sizes at an instant are estimated from.
type estimator struct {
	Settings
	h      *History
	now    time.Time
	span   time.Duration // provision time
	spread float64       // Spread.Careful
	mean   float64       // claims of an hour, on average; 0: not known
}

// covering is the size for so many claims, counted over so many provision times.
//
// The target is for all claims together. An instance more at a busy time saves more misses than one at night, and costs the
// same: so the target is reached with the fewest where the last instance saves as many misses at any time. As the tail of the
// claims that a size does not cover falls off alike at any time, that is where a miss is the less likely the more claims there
// are, and so that they come to the target on average.
//
// `own` is what the coming of a claim adds to the count.
func (e estimator) covering(count, exposure, own float64) float64 {
	allowed := 1 - e.Target
	if e.mean > 0 {
		perHour := count / exposure / e.span.Hours()
		allowed = min(allowed*min(cheapest, max(dearest, e.mean/perHour)), max(allowed, mostMissed))
	}
	return float64(coveringSize(count+own, exposure, e.spread, 1-allowed, e.Max+1)) // one more: then it is seen to be above
}

// coveringKnown is covering for a count over a time that is known. Half a batch is added to it, in the time in which the pool
// has one on average: where none came, one may. And of the rates that the count leaves open, higher ones bring more claims:
// each batch that comes is one more that was seen.
func (e estimator) coveringKnown(count, exposure float64) float64 {
	batch := batchOf(e.spread)
	if e.mean > 0 {
		count, exposure = count+batch/2, exposure+batch/2/(e.mean*e.span.Hours())
	}
	return e.covering(count, exposure, batch)
}

// forecast is what past weeks ask for.
type forecast struct {
	typical  float64     // size
	burst    float64     // size for what comes at this time again and again; 0: nothing does
	like     []time.Time // the instants in the past that now is like
	rate     float64     // expected number of claims in a provision time
	exposure float64     // provision times that the rate was counted over; 0: nothing is known
}

// forecast is made of the same time in past weeks.
func (e estimator) forecast() forecast {
	f := forecast{like: e.sameDays()}
	strangers := len(f.like) == 0 // the week is not over: other days stand in
	if strangers {
		f.like = e.otherDays()
	}
	var count, buckets float64
	for width := smooth; ; width *= 2 {
		count, buckets = e.count(f.like, width)
		if count < enough*e.spread && !strangers {
			more, over := e.similar(f.like, width)
			count, buckets = count+more, buckets+over
		}
		if count >= enough*e.spread || width >= widest {
			break
		}
	}
	if buckets == 0 {
		return f
	}
	f.exposure = buckets * float64(BucketLength) / float64(e.span)
	f.burst = e.burst(f.like, count/f.exposure)
	weight := knownLevel
	if strangers {
		weight = strangeLevel
	}
	count *= e.level(f.like, weight*e.spread)
	f.rate = count / f.exposure
	f.typical = e.coveringKnown(count, f.exposure)
	return f
}

// burst is the size for what came within a short time in most of the past weeks, far above the usual claims of a provision
// time: that is no coincidence, and a batch at the same time in each of several weeks is less of one than in a single week. It
// will come again, and may be larger than those seen, by the less the more were seen. Other days that had it, too, say how
// large it can be. 0 where there is none.
func (e estimator) burst(like []time.Time, usual float64) float64 {
	most := e.peaks(like)
	limit := usual + 2*math.Sqrt(e.spread*(usual+e.spread/float64(len(most))))
	if most[(len(most)-1)/2] <= limit {
		return 0
	}
	largest, seen := most[len(most)-1], len(most)
	if len(e.sameDays()) > 0 { // else other days are what it is given
		for _, peak := range e.peaks(e.daysBetween()) {
			if peak > limit {
				largest, seen = max(largest, peak), seen+1
			}
		}
	}
	return largest + math.Sqrt(largest/float64(seen))
}

// level is how busy today is beside the days it is like, by its last hours.
func (e estimator) level(like []time.Time, weight float64) float64 {
	from := e.back(level)
	return min(mostLevel, (e.h.sofar(from, e.now)+weight)/(e.expected(like, from)+weight))
}

// back is the edge of the bucket so long ago, or the beginning of history.
func (e estimator) back(by time.Duration) time.Time {
	from := e.now.Add(-by).Truncate(BucketLength)
	if from.Before(e.h.since) {
		return e.h.since
	}
	return from
}

// expected is the claims that the days which today is like had from the same time on.
func (e estimator) expected(like []time.Time, from time.Time) (claims float64) {
	for _, then := range like {
		claims += e.h.claims(then.Add(-e.now.Sub(from)), then) / float64(len(like))
	}
	return claims
}

// count is the claims from so long before some instants until so long after their next provision time, and in how many buckets.
// Buckets that are far above the others are left out: a burst says nothing about the time around it.
func (e estimator) count(at []time.Time, width time.Duration) (claims, buckets float64) {
	most := make([]float64, 0, 2*weeks+4) // a burst may lie in two buckets of each week
	for _, then := range at {
		first := max(0, e.h.index(then.Add(-width)))
		last := min(e.h.index(then.Add(e.span+width)), e.h.index(e.now)-1)
		for i := first; i <= last; i++ {
			c := float64(e.h.bucket(i).Claims)
			claims += c
			buckets++
			if len(most) < 2*len(at) {
				most = append(most, c)
			} else if i := slices.Index(most, slices.Min(most)); c > most[i] {
				most[i] = c
			}
		}
	}
	others := claims
	for _, c := range most {
		others -= c
	}
	limit := unlikely(others/max(1, buckets-float64(len(most))), e.spread)
	for _, c := range most {
		if c > limit {
			claims -= c
			buckets--
		}
	}
	return claims, buckets
}

// similar is count on the other days of the last two weeks that were as busy around this time as those it is given, or nearly;
// what came is scaled by how busy.
func (e estimator) similar(like []time.Time, width time.Duration) (claims, buckets float64) {
	near := func(then time.Time) float64 {
		return e.h.claims(then.Add(-beside), then.Add(beside))
	}
	mean := 0.0
	for _, then := range like {
		mean += near(then) / float64(len(like))
	}
	few := 3 * e.spread // that many more: none compared with one batch is no difference
	for _, then := range e.daysBetween() {
		ratio := (mean + few) / (near(then) + few)
		if ratio < alike && ratio > 1/alike {
			c, n := e.count([]time.Time{then}, width)
			claims, buckets = claims+c*ratio, buckets+n
		}
	}
	return claims, buckets
}

// peaks is the most claims that each of the past weeks had in a provision time, and until
// the next step, about the same time, in order.
func (e estimator) peaks(like []time.Time) []float64 {
	most := make([]float64, 0, len(like))
	for _, then := range like {
		peak := 0.0
		for shift := -around; shift <= around; shift += pace { // a bucket that is cut counts in part: some shift has it whole
			peak = max(peak, e.h.claims(then.Add(shift), then.Add(shift+e.span+pace)))
		}
		most = append(most, peak)
	}
	slices.Sort(most)
	return most
}

// sameDays are the same time of the same day in past weeks, as far as they are known.
func (e estimator) sameDays() []time.Time { return e.known(7, weeks) }

// daysBetween are the same time of the other days of the last two weeks, as far as they are known.
func (e estimator) daysBetween() (days []time.Time) {
	for n := 1; n < fortnight; n++ {
		if then := e.daysAgo(n); n%7 != 0 && !then.Before(e.h.since) {
			days = append(days, then)
		}
	}
	return days
}

// otherDays are the same time of the last days, as far as they are known.
func (e estimator) otherDays() []time.Time { return e.known(1, 6) }

func (e estimator) known(apart, most int) (like []time.Time) {
	for n := 1; n <= most; n++ {
		if then := e.daysAgo(apart * n); !then.Before(e.h.since) {
			like = append(like, then)
		}
	}
	return like
}

// daysAgo is the same time by the clock on the wall, so that nine o'clock stays nine o'clock when summer ends.
func (e estimator) daysAgo(n int) time.Time {
	location := cmp.Or(e.Location, time.UTC)
	return e.now.In(location).AddDate(0, 0, -n)
}

// latest is the size that the last half hour asks for: the forecast, and by how much the last half hour was above what past
// weeks had then. What chance makes of such a difference is taken off it (a Stein estimate); 0 where nothing is left.
func (e estimator) latest(f forecast) float64 {
	from := e.back(recent)
	exposure := float64(e.now.Sub(from)) / float64(e.span)
	if exposure <= 0 {
		return 0
	}
	count := e.h.sofar(from, e.now)
	if f.exposure == 0 {
		// A minute without claims says little, and a claim in the first minute not that one comes each minute.
		e.spread, exposure = max(e.spread, firstSpread), max(exposure, 1)
		if count == 0 {
			e.spread, exposure = 1, max(exposure, float64(recent)/float64(e.span)) // for whoever comes first
		}
		return e.covering(count+0.5, exposure, 0) // Jeffreys: half a claim more than was seen
	}
	surplus := count - e.expected(f.like, from)
	if surplus <= 0 {
		return 0
	}
	surplus -= surely * e.spread * (count - surplus + 2*e.spread) / surplus
	if surplus <= 0 {
		return 0
	}
	both := f.exposure + exposure
	return e.coveringKnown((f.rate+surplus/exposure)*both, both)
}

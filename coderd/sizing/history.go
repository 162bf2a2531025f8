package sizing

import "time"

// BucketLength is how fine claims are counted.
const BucketLength = 5 * time.Minute

// Bucket is what happened to a preset in one BucketLength. A miss is a claim that was no hit.
type Bucket struct {
	Claims, Hits     int
	Provisions       int     // workspaces that became ready
	ProvisionSeconds float64 // they took together, from the decision to build them
}

// History is the claims of a preset up to now, in buckets without a gap, the last of which is perhaps not over.
type History struct {
	since   time.Time // of the first bucket, a multiple of BucketLength
	buckets []Bucket
}

// NewHistory is one that begins at an instant, before which nothing is known.
func NewHistory(since time.Time) *History {
	return &History{since: since.UTC().Truncate(BucketLength)}
}

// Since is when it begins.
func (h *History) Since() time.Time { return h.since }

// Add adds to the bucket of an instant; what is before the beginning is not known, and left out.
func (h *History) Add(at time.Time, b Bucket) {
	to := h.at(at)
	if to == nil {
		return
	}
	to.Claims += b.Claims
	to.Hits += b.Hits
	to.Provisions += b.Provisions
	to.ProvisionSeconds += b.ProvisionSeconds
}

// Put makes the bucket of an instant what was counted.
func (h *History) Put(at time.Time, b Bucket) {
	if to := h.at(at); to != nil {
		*to = b
	}
}

// at is the bucket of an instant; nil before the beginning.
func (h *History) at(at time.Time) *Bucket {
	i := h.index(at)
	if i < 0 {
		return nil
	}
	for len(h.buckets) <= i {
		h.buckets = append(h.buckets, Bucket{})
	}
	return &h.buckets[i]
}

// index of the bucket of an instant; below 0 before the beginning.
func (h *History) index(at time.Time) int {
	if at.Before(h.since) {
		return -1
	}
	return int(at.Sub(h.since) / BucketLength)
}

// edge is the index of the first bucket that begins at an instant or after it.
func (h *History) edge(at time.Time) int {
	i := h.index(at)
	if i < 0 || at.After(h.since.Add(time.Duration(i)*BucketLength)) {
		i++
	}
	return i
}

// between is the buckets from one index to before another, as far as there are any.
func (h *History) between(from, to int) []Bucket {
	to = min(to, len(h.buckets))
	return h.buckets[min(max(0, from), max(0, to)):max(0, to)]
}

func (h *History) bucket(i int) Bucket {
	if i < 0 || i >= len(h.buckets) {
		return Bucket{}
	}
	return h.buckets[i]
}

// claims expected between two instants: a bucket that is cut counts with the part within.
func (h *History) claims(from, to time.Time) float64 {
	if from.Before(h.since) {
		from = h.since
	}
	if !from.Before(to) {
		return 0
	}
	first, last := h.index(from), h.index(to)
	if first == last {
		return float64(h.bucket(first).Claims) * float64(to.Sub(from)) / float64(BucketLength)
	}
	start := h.since.Add(time.Duration(first+1) * BucketLength)
	sum := float64(h.bucket(first).Claims) * float64(start.Sub(from)) / float64(BucketLength)
	for _, b := range h.between(first+1, last) {
		sum += float64(b.Claims)
	}
	end := h.since.Add(time.Duration(last) * BucketLength)
	return sum + float64(h.bucket(last).Claims)*float64(to.Sub(end))/float64(BucketLength)
}

// sofar is the claims from a bucket's edge until now: all those of the bucket that is not over have come, and count whole.
func (h *History) sofar(from, now time.Time) float64 {
	sum := 0.0
	for _, b := range h.between(h.index(from), h.index(now)+1) {
		sum += float64(b.Claims)
	}
	return sum
}

// Total is everything between two instants, by the buckets that begin there.
func (h *History) Total(from, to time.Time) Bucket {
	var sum Bucket
	for _, b := range h.between(h.edge(from), h.edge(to)) {
		sum.Claims += b.Claims
		sum.Hits += b.Hits
		sum.Provisions += b.Provisions
		sum.ProvisionSeconds += b.ProvisionSeconds
	}
	return sum
}

// rate is the claims of an hour, on average over the last week, nights and all; 0 while less than a day is known.
func (h *History) rate(now time.Time) float64 {
	from := now.Add(-week)
	if from.Before(h.since) {
		from = h.since
	}
	if now.Sub(from) < day {
		return 0
	}
	return h.claims(from, now) / now.Sub(from).Hours()
}

// Busiest is the most claims in any stretch of the given length between two instants.
func (h *History) Busiest(from, to time.Time, stretch time.Duration) int {
	n := max(1, int(stretch/BucketLength))
	most, sum := 0, 0
	for i := max(0, h.index(from)); i < len(h.buckets) && h.since.Add(time.Duration(i)*BucketLength).Before(to); i++ {
		sum += h.bucket(i).Claims
		if i-n >= max(0, h.index(from)) {
			sum -= h.bucket(i - n).Claims
		}
		most = max(most, sum)
	}
	return most
}

// ProvisionTime is how long a prebuild took on average in the day before an instant, or in the week before it if there was
// none on that day; DefaultProvisionTime where there was none at all.
func (h *History) ProvisionTime(now time.Time) time.Duration {
	if d, measured := h.MeasuredProvisionTime(now); measured {
		return d
	}
	return DefaultProvisionTime
}

// MeasuredProvisionTime is ProvisionTime without the default: false where nothing was counted.
func (h *History) MeasuredProvisionTime(now time.Time) (time.Duration, bool) {
	for _, span := range []time.Duration{day, week} {
		if b := h.Total(now.Add(-span), now); b.Provisions > 0 {
			return time.Duration(b.ProvisionSeconds / float64(b.Provisions) * float64(time.Second)), true
		}
	}
	return 0, false
}

// DefaultProvisionTime is what is assumed while nothing is known.
const DefaultProvisionTime = 5 * time.Minute

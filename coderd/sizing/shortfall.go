package sizing

import (
	"fmt"
	"math"
	"strings"
	"time"
)

const (
	// cappedFor is how long a pool must ask for more than its maximum, again and again, before that is worth a word. A burst is
	// not, and sizes follow it for `recent`.
	cappedFor = 2 * recent
	// uncapped is how long it must not, before that is over.
	uncapped = recent
	// judged is the time whose hit rate is held against the target.
	judged = day
	// sure is by how many standard deviations there must be more misses than the target allows, and fewMisses how many at
	// least, before that is no accident.
	sure, fewMisses = 3, 3
)

// Shortfall is what Step remembers of a target that it does not reach.
type Shortfall struct {
	Applied time.Time `json:",omitzero"` // since when the pool has had the sizes of steps; zero: it does not
	// The pool has asked for more than its maximum since Since, last at Last. Zero: it has not for a while.
	Since time.Time `json:",omitzero"`
	Last  time.Time `json:",omitzero"`
	// Missing says that there were too many misses, and that the hit rate has not been back at the target since.
	Missing bool `json:",omitempty"`
}

// shortfall is what to tell people where the target can't be reached, or is not; empty while nothing is wrong. It begins late
// and ends late, so that it is one episode and not many.
func (s Settings) shortfall(f Shortfall, h *History, now, through time.Time, capped, applied bool) (string, Shortfall) {
	if !applied {
		return "", Shortfall{}
	}
	if f.Applied.IsZero() || f.Applied.After(now) {
		f.Applied = now
	}
	if f.Last.After(now) || now.Sub(f.Last) >= uncapped {
		f.Since, f.Last = time.Time{}, time.Time{}
	}
	if capped {
		if f.Since.IsZero() {
			f.Since = now
		}
		f.Last = now
	}
	var why []string
	if !f.Since.IsZero() && now.Sub(f.Since) >= cappedFor {
		why = append(why, fmt.Sprintf("claims ask for more than the maximum of %d, since %s",
			s.Max, f.Since.UTC().Format("2006-01-02 15:04 UTC")))
	}
	from := through.Add(-judged)
	if f.Applied.After(from) { // what was missed before says nothing about these sizes
		f.Missing = false
		return strings.Join(why, "; "), f
	}
	b := h.Total(from, through)
	misses, allowed := float64(b.Claims-b.Hits), float64(b.Claims)*(1-s.Target)
	switch {
	case misses <= allowed:
		f.Missing = false
	case misses >= fewMisses && misses > allowed+sure*math.Sqrt(allowed):
		f.Missing = true
	}
	if f.Missing {
		why = append(why, fmt.Sprintf("%d of the %d claims of the last day were hits: %s, where the target is %s", b.Hits, b.Claims,
			roundedDown(float64(b.Hits)/float64(b.Claims)), Percent(s.Target)))
	}
	return strings.Join(why, "; "), f
}

// roundedDown is a percentage that is not rounded up to a target that it does not reach.
func roundedDown(fraction float64) string { return Percent(math.Floor(fraction*10_000) / 10_000) }

package inventory

import "fmt"

// Breaker is the state of one; Reason is empty while it is closed. A reason does not change while the breaker is open, but
// where inventories find a worse one than calls that fail.
type Breaker struct {
	Reason string
	Clean  int // clean inventories in a row, while it is open
	// Calls: calls that failed have opened it, so that what the provider says is believed. It holds no delete back, and
	// closes as soon as calls succeed again.
	Calls bool
}

// Open says whether creates and resets are stopped, and deletes unless calls have opened it.
func (b Breaker) Open() bool { return b.Reason != "" }

// Limits are a provider's settings of its breaker.
type Limits struct {
	Count   int // of new discrepancies, at which it opens
	Percent int // of all entries, which they must be as well
	Errors  int // per cent of the latest calls that fail
	Clean   int // inventories after which it closes
}

const (
	// windowCalls are how many of the latest calls are looked at. Of fewer, as many must fail as of so many.
	windowCalls = 20
	// closeCalls are how many of the latest calls close a breaker that calls have opened.
	closeCalls = 3
)

// Seen is what one inventory says of its provider.
type Seen struct {
	Incomplete string // why the listing failed; empty: it is complete
	New        int    // discrepancies that the complete inventory before did not have
	Entries    int
}

// trouble is why the breaker should be open; empty: it should not.
func (l Limits) trouble(s Seen) string {
	switch {
	case s.Incomplete != "":
		return "the listing failed: " + s.Incomplete
	case s.New >= l.Count && s.New*100 >= l.Percent*s.Entries:
		return fmt.Sprintf("%d new discrepancies among %d", s.New, s.Entries)
	}
	return ""
}

// Next is the breaker after an inventory (S3). An open one closes after so many clean inventories in a row: complete, and
// without trouble. What was amiss before and still is does not keep it open: what several inventories agree on is taken
// for true. A listing that fails while calls fail is one of them, and says no more.
func (b Breaker) Next(l Limits, s Seen) Breaker {
	trouble := l.trouble(s)
	switch {
	case !b.Open():
		return Breaker{Reason: trouble}
	case b.Calls && s.Incomplete != "":
		return Breaker{Reason: b.Reason, Calls: true}
	case b.Calls && trouble != "":
		return Breaker{Reason: trouble}
	case trouble != "":
		return Breaker{Reason: b.Reason}
	case b.Clean+1 >= l.Clean:
		return Breaker{}
	}
	return Breaker{Reason: b.Reason, Clean: b.Clean + 1, Calls: b.Calls}
}

// Tally is how many calls ended, and how many of them in an error of the provider's.
type Tally struct{ Calls, Errors int }

func (t Tally) add(o Tally) Tally { return Tally{t.Calls + o.Calls, t.Errors + o.Errors} }

// Judge is the breaker by the latest calls since it last changed, the newest tally first (S3). It opens when so many of the
// last 20 calls fail, and closes, if calls have opened it, when most of the last 3 or more succeed.
func (b Breaker) Judge(l Limits, latest []Tally) Breaker {
	var last Tally
	for _, t := range latest {
		if last = last.add(t); last.Calls >= closeCalls {
			break
		}
	}
	good := last.Calls >= closeCalls && last.Errors*100 < l.Errors*last.Calls
	switch {
	case b.Open() && b.Calls && good:
		return Breaker{}
	case b.Open() || good: // what was is over
		return b
	}
	var sum Tally
	for _, t := range latest {
		if sum.Calls >= windowCalls {
			break
		}
		sum = sum.add(t)
		if sum.Errors*100 >= l.Errors*max(sum.Calls, windowCalls) {
			return Breaker{Reason: fmt.Sprintf("%d of %d calls failed", sum.Errors, sum.Calls), Calls: true}
		}
	}
	return b
}

package inventory

import "fmt"

// Breaker is the state of one; Reason is empty while it is closed. A reason does not change while the breaker is open.
type Breaker struct {
	Reason string
	Clean  int // clean inventories in a row, while it is open
}

// Open says whether creates and deletes are stopped.
func (b Breaker) Open() bool { return b.Reason != "" }

// Limits are a provider's settings of its breaker.
type Limits struct {
	Count   int // of new discrepancies, at which it opens
	Percent int // of all entries, which they must be as well
	Errors  int // per cent of calls that fail
	Clean   int // inventories after which it closes
}

// fewestCalls is what a rate of errors is never computed of fewer than.
const fewestCalls = 20

// Seen is what one inventory says of its provider.
type Seen struct {
	Incomplete string // why the listing failed; empty: it is complete
	New        int    // discrepancies that the complete inventory before did not have
	Entries    int
	Calls      int // lately
	Errors     int // of these
}

// trouble is why the breaker should be open; empty: it should not.
func (l Limits) trouble(s Seen) string {
	switch {
	case s.Incomplete != "":
		return "the listing failed: " + s.Incomplete
	case s.New >= l.Count && s.New*100 >= l.Percent*s.Entries:
		return fmt.Sprintf("%d new discrepancies among %d", s.New, s.Entries)
	case s.Calls >= fewestCalls && s.Errors*100 >= l.Errors*s.Calls:
		return fmt.Sprintf("%d of %d calls failed", s.Errors, s.Calls)
	}
	return ""
}

// Next is the breaker after an inventory (S3). An open one closes after so many clean inventories in a row: complete, and
// without trouble. What was amiss before and still is does not keep it open: what several inventories agree on is taken
// for true.
func (b Breaker) Next(l Limits, s Seen) Breaker {
	trouble := l.trouble(s)
	switch {
	case !b.Open():
		return Breaker{Reason: trouble}
	case trouble != "":
		return Breaker{Reason: b.Reason}
	case b.Clean+1 >= l.Clean:
		return Breaker{}
	}
	return Breaker{Reason: b.Reason, Clean: b.Clean + 1}
}

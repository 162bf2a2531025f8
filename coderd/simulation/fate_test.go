//go:build !race

package simulation

import (
	"fmt"
	"time"
)

// fate is what becomes of a call that is let through.
type fate int

const (
	fateGood fate = iota
	// Of statements.
	fateSerialization // 40001, in a transaction
	fateDeadlock      // 40P01, in a transaction
	fateLostBefore    // the connection breaks before the statement
	fateLostAfter     // the connection breaks after it
	// Of a provider's calls.
	fateErrorBefore
	fateErrorAfter
	fatePermanent
	fateTwice
	fateLie
	fateHangBefore
	fateHangAfter
	// Of notifications.
	fateDrop
	fateRepeat
)

var fateNames = map[fate]string{
	fateGood: "", fateSerialization: "40001", fateDeadlock: "40P01", fateLostBefore: "connection lost before",
	fateLostAfter: "connection lost after", fateErrorBefore: "provider fails before", fateErrorAfter: "provider fails after",
	fatePermanent: "provider refuses", fateTwice: "provider does it twice", fateLie: "provider lies",
	fateHangBefore: "provider hangs before", fateHangAfter: "provider hangs after", fateDrop: "notification lost",
	fateRepeat: "notification repeated",
}

func (f fate) String() string { return fateNames[f] }

// fateOf draws what becomes of a call, by the seed and the number of the step.
func (w *world) fateOf(c *call) fate {
	if c.name == "delete" && c.mark == markProvider && time.Now().Before(w.noDeletes) {
		w.fired(fateErrorAfter.String())
		return fateErrorAfter
	}
	d := w.dice("fate")
	if c.name == "create" && c.mark == markProvider && time.Now().Before(w.spoiled) && (w.calm || d.IntN(2) == 0) {
		f := []fate{fatePermanent, fatePermanent, fateLie}[d.IntN(3)]
		w.fired(f.String())
		return f
	}
	if w.calm {
		return fateGood
	}
	roll := d.Float64()
	trouble := w.trouble
	if c.mark == markProvider { // there are fewer of those
		trouble *= 4
		if w.back != nil { // a bad provider in all
			trouble = min(2*trouble, 0.4)
		}
	}
	if roll >= trouble {
		return fateGood
	}
	var among []fate
	switch {
	case c.mark == markProvider && (c.name == "create" || c.name == "reset"):
		among = []fate{
			fateErrorBefore, fateErrorAfter, fatePermanent, fatePermanent, fatePermanent, fateTwice, fateLie, fateLie, fateLie,
			fateHangBefore, fateHangAfter,
		}
	case c.mark == markProvider:
		among = []fate{fateErrorBefore, fateErrorAfter, fateTwice, fateLie, fateHangBefore, fateHangAfter}
	case c.mark == markAnswer || c.mark == markYield:
		return fateGood
	case c.tx != nil && c.mark == markQuery && c.name != "savepoint":
		among = []fate{fateSerialization, fateDeadlock, fateLostBefore, fateLostAfter}
	case c.mark == markRollback:
		among = []fate{fateLostBefore}
	default:
		among = []fate{fateLostBefore, fateLostAfter}
	}
	f := among[d.IntN(len(among))]
	if !w.allowed(f.String()) {
		return fateGood
	}
	w.fired(f.String())
	return f
}

// allowed says whether a fault of this kind, or the one at this step, was not taken out to shorten a trace.
func (w *world) allowed(kind string) bool {
	return !w.without[kind] && !w.without[fmt.Sprint(w.step)]
}

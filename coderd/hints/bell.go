package hints

// Bell wakes one loop. However often it rings while the loop is at work, the loop looks once more; a ring is never lost.
// A Bell is a channel to receive from, as in lease.Loop.
type Bell chan struct{}

// NewBell returns a Bell that has not rung.
func NewBell() Bell { return make(Bell, 1) }

// Ring never blocks.
func (b Bell) Ring() {
	select {
	case b <- struct{}{}:
	default: // it has rung, and nobody has looked yet
	}
}

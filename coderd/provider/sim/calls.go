package sim

// someCalls is of how many names and kinds at least the calls are counted: those that were called last.
const someCalls = 50_000

// calls counts calls, each by the hash of its name and kind. Names are never used again, so that counts for each would be more
// and more: of those that have not been called for long they begin again. The zero value is ready.
type calls struct {
	lately, before map[uint64]uint64 // at most someCalls each
}

// count counts one call, and says which it is of its kind on its name, from 1.
func (c *calls) count(of uint64) uint64 {
	n, ok := c.lately[of]
	if !ok {
		n = c.before[of]
		if c.lately == nil || len(c.lately) == someCalls {
			c.lately, c.before = map[uint64]uint64{}, c.lately
		}
	}
	c.lately[of] = n + 1
	return n + 1
}

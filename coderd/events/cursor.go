package events

import (
	"maps"
	"slices"
	"time"
)

const (
	// gapAge is how long a missing id is asked for. A pass, the longest transaction there is, may last 30 s.
	gapAge = time.Minute
	// maxGaps bounds what a look asks for. Numbers are missing for good where a transaction was rolled back.
	maxGaps = 2000
	// lookback is how far behind the end of a log a new cursor looks for transactions under way.
	lookback = 1000
)

// cursor knows which rows of a log were seen: all up to last but the gaps, each missing since a time.
type cursor struct {
	last int64
	gaps map[int64]time.Time
}

// newCursor begins before the end of a log, so that the first rows taken show which numbers are missing there.
func newCursor(end int64) cursor {
	return cursor{last: max(0, end-lookback), gaps: map[int64]time.Time{}}
}

// take notes ids, which ascend, as seen.
func (c *cursor) take(ids []int64, now time.Time) {
	for id, since := range c.gaps {
		if now.Sub(since) >= gapAge {
			delete(c.gaps, id)
		}
	}
	for _, id := range ids {
		for missing := max(c.last+1, id-maxGaps); missing < id; missing++ {
			c.gaps[missing] = now
		}
		delete(c.gaps, id)
		c.last = max(c.last, id)
	}
	for _, id := range c.missing()[:max(0, len(c.gaps)-maxGaps)] {
		delete(c.gaps, id) // the oldest are the least likely to come
	}
}

// missing are the gaps, in order.
func (c *cursor) missing() []int64 { return slices.Sorted(maps.Keys(c.gaps)) }

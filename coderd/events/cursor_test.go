package events

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Whatever the order in which rows appear, each is asked for until it was taken once, and none twice.
func TestCursor_everyRowOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		now := time.Unix(0, 0)
		c := newCursor(0)
		order := rapid.Permutation(sequence(40)).Draw(t, "order of commits")
		seen, there := map[int64]int{}, map[int64]bool{}
		for len(order) > 0 {
			n := rapid.IntRange(1, len(order)).Draw(t, "commits until the next look")
			for _, id := range order[:n] {
				there[id] = true
			}
			order = order[n:]
			c.take(asked(&c, there, seen), now)
			now = now.Add(time.Duration(rapid.IntRange(0, 1000).Draw(t, "ms")) * time.Millisecond)
		}
		for _, id := range sequence(40) {
			require.Equal(t, 1, seen[id], "row %d", id)
		}
		require.Empty(t, c.missing())
	})
}

// asked is what the database would answer.
func asked(c *cursor, there map[int64]bool, seen map[int64]int) []int64 {
	var ids []int64
	gaps := map[int64]bool{}
	for _, id := range c.missing() {
		gaps[id] = true
	}
	for id := int64(1); id <= 40; id++ {
		if there[id] && (id > c.last || gaps[id]) {
			ids = append(ids, id)
			seen[id]++
		}
	}
	return ids
}

func sequence(n int64) []int64 {
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = int64(i) + 1
	}
	return ids
}

// What was rolled back is asked for as long as a transaction may last, and not for ever; and never for too many.
func TestCursor_gapsEnd(t *testing.T) {
	t.Parallel()
	now := time.Unix(0, 0)
	c := newCursor(0)
	c.take([]int64{1, 3}, now)
	require.Equal(t, []int64{2}, c.missing())
	c.take(nil, now.Add(30*time.Second))
	require.Equal(t, []int64{2}, c.missing())
	c.take(nil, now.Add(gapAge))
	require.Empty(t, c.missing())

	c.take([]int64{10_000_000}, now)
	require.Len(t, c.missing(), maxGaps)
	require.EqualValues(t, 9_999_999, c.missing()[maxGaps-1], "the latest are the likeliest to come")
	c.take([]int64{10_000_100}, now)
	require.Len(t, c.missing(), maxGaps)
	require.EqualValues(t, 10_000_099, c.missing()[maxGaps-1])
}

func TestNewCursor_beginsBeforeTheEnd(t *testing.T) {
	t.Parallel()
	require.EqualValues(t, 0, newCursor(10).last)
	require.EqualValues(t, 4000, newCursor(4000+lookback).last)
}

package inventory

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

var usual = Limits{Count: 10, Percent: 25, Errors: 50, Clean: 3}

func TestBreaker_opens(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		seen Seen
		why  string
	}{
		"nothing amiss":            {Seen{Entries: 100}, ""},
		"a mass":                   {Seen{New: 25, Entries: 100}, "25 new discrepancies among 100"},
		"a small share of many":    {Seen{New: 24, Entries: 100}, ""},
		"a large share of few":     {Seen{New: 9, Entries: 9}, ""},
		"just so many":             {Seen{New: 10, Entries: 40}, "10 new discrepancies among 40"},
		"an incomplete listing":    {Seen{Incomplete: "no answer"}, "the listing failed: no answer"},
		"calls that fail":          {Seen{Calls: 20, Errors: 10}, "10 of 20 calls failed"},
		"fewer calls than tell":    {Seen{Calls: 19, Errors: 19}, ""},
		"calls that mostly do not": {Seen{Calls: 200, Errors: 99}, ""},
	} {
		assert.Equal(t, tc.why, Breaker{}.Next(usual, tc.seen).Reason, name)
	}
}

func TestBreaker_closes(t *testing.T) {
	t.Parallel()
	b := Breaker{}.Next(usual, Seen{Incomplete: "no answer"})
	b = b.Next(usual, Seen{})
	b = b.Next(usual, Seen{Entries: 10, New: 3})
	require.Equal(t, Breaker{Reason: "the listing failed: no answer", Clean: 2}, b, "the reason stays as it was")
	b = b.Next(usual, Seen{Entries: 100, New: 100})
	require.Equal(t, 0, b.Clean, "in a row")
	for range 2 {
		b = b.Next(usual, Seen{Entries: 100})
		require.True(t, b.Open())
	}
	require.False(t, b.Next(usual, Seen{Entries: 100}).Open(), "what is still amiss, and was before, is taken for true")
}

// However it comes, it is closed only after so many clean ones in a row.
func TestBreaker_property(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limits := Limits{Count: rapid.IntRange(1, 4).Draw(t, "count"), Percent: 50, Errors: 50, Clean: rapid.IntRange(1, 4).Draw(t, "clean")}
		var b Breaker
		clean := 0
		for range rapid.IntRange(1, 30).Draw(t, "inventories") {
			s := Seen{New: rapid.IntRange(0, 4).Draw(t, "new"), Entries: rapid.IntRange(4, 8).Draw(t, "entries")}
			if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
				s.Incomplete = "no answer"
			}
			was := b
			b = b.Next(limits, s)
			if limits.trouble(s) != "" {
				require.True(t, b.Open())
				clean = 0
				continue
			}
			clean++
			if was.Open() {
				require.Equal(t, clean < limits.Clean, b.Open())
			} else {
				require.False(t, b.Open())
			}
		}
	})
}

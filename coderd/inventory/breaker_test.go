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
		"nothing amiss":         {Seen{Entries: 100}, ""},
		"a mass":                {Seen{New: 25, Entries: 100}, "25 new discrepancies among 100"},
		"a small share of many": {Seen{New: 24, Entries: 100}, ""},
		"a large share of few":  {Seen{New: 9, Entries: 9}, ""},
		"just so many":          {Seen{New: 10, Entries: 40}, "10 new discrepancies among 40"},
		"an incomplete listing": {Seen{Incomplete: "no answer"}, "the listing failed: no answer"},
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

// The newest tally comes first, as replicas have written them down.
func TestBreaker_judge(t *testing.T) {
	t.Parallel()
	closed, calls, listing := Breaker{}, Breaker{Reason: "10 of 12 calls failed", Calls: true}, Breaker{Reason: "the listing failed"}
	failed := func(n int) Tally { return Tally{n, n} }
	for name, tc := range map[string]struct {
		was    Breaker
		latest []Tally
		is     Breaker
	}{
		"nothing was called":           {closed, nil, closed},
		"fewer failures than tell":     {closed, []Tally{failed(9)}, closed},
		"the tenth":                    {closed, []Tally{failed(1), failed(9)}, Breaker{Reason: "10 of 10 calls failed", Calls: true}},
		"the tenth, beside good ones":  {closed, []Tally{{5, 4}, {14, 6}}, Breaker{Reason: "10 of 19 calls failed", Calls: true}},
		"a share that is borne":        {closed, []Tally{{10, 4}, {12, 5}}, closed},
		"after a time of many":         {closed, []Tally{failed(12), {1000, 0}}, Breaker{Reason: "12 of 12 calls failed", Calls: true}},
		"an outage that is over":       {closed, []Tally{{3, 0}, failed(100)}, closed},
		"an outage of long ago":        {closed, []Tally{{2, 1}, {30, 0}, failed(100)}, closed},
		"good again, too few to tell":  {calls, []Tally{{2, 0}}, calls},
		"good again":                   {calls, []Tally{{2, 0}, {1, 0}, failed(5)}, closed},
		"one that hung ends in error":  {calls, []Tally{{3, 1}}, closed},
		"still failing":                {calls, []Tally{{4, 2}}, calls},
		"a listing that failed":        {listing, []Tally{{100, 0}}, listing},
		"failed, and open for another": {listing, []Tally{failed(100)}, listing},
	} {
		assert.Equal(t, tc.is, tc.was.Judge(usual, tc.latest), name)
	}
}

// What inventories make of a breaker that calls have opened.
func TestBreaker_inventoriesBesideCalls(t *testing.T) {
	t.Parallel()
	b := Breaker{Reason: "10 of 10 calls failed", Calls: true}
	require.Equal(t, b, b.Next(usual, Seen{Incomplete: "no answer"}), "one more call that failed")
	require.Equal(t, Breaker{Reason: "20 new discrepancies among 20"}, b.Next(usual, Seen{New: 20, Entries: 20}), "nothing is deleted by that")
	for range 3 {
		require.True(t, b.Open())
		b = b.Next(usual, Seen{Entries: 20})
	}
	require.False(t, b.Open())
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

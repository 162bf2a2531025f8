package sizing_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/prewarm-dev/prewarm/coderd/sizing"
)

func TestHitRate(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		miss sizing.Miss
		size int
		load float64
		want float64
	}{
		"nothing":               {sizing.MissWaits, 0, 1, 0},
		"no load":               {sizing.MissWaits, 1, 0, 1},
		"one waits":             {sizing.MissWaits, 1, 1, math.Exp(-1)},
		"three wait":            {sizing.MissWaits, 3, 2, 5 * math.Exp(-2)},
		"one cold":              {sizing.MissCold, 1, 1, 0.5},
		"two cold":              {sizing.MissCold, 2, 1, 0.8},
		"ten cold":              {sizing.MissCold, 10, 5, 1 - 0.018385}, // from a published table of Erlang B
		"a large pool waits":    {sizing.MissWaits, 10_000, 10_000, 0.4987},
		"a large pool is small": {sizing.MissCold, 100, 10_000, 0.01},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			assert.InDelta(t, test.want, sizing.HitRate(test.miss, test.size, test.load), 2e-4)
		})
	}
}

// The size is the smallest one, and more never hits less.
func TestSizeFor(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		miss := rapid.SampledFrom([]sizing.Miss{sizing.MissWaits, sizing.MissCold}).Draw(t, "miss")
		load := rapid.Float64Range(0.001, 200).Draw(t, "load")
		target := rapid.Float64Range(0.01, 0.9999).Draw(t, "target")
		size := sizing.SizeFor(miss, load, target, 10_000)
		if got := sizing.HitRate(miss, size, load); got < target {
			t.Fatalf("size %d hits %f, below %f", size, got, target)
		}
		if got := sizing.HitRate(miss, size-1, load); size > 0 && got >= target {
			t.Fatalf("size %d hits %f already", size-1, got)
		}
	})
}

// The models say what a replay of claims that come singly shows: they are two independent accounts of one pool.
func TestModelsAgreeWithReplay(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	end := start.AddDate(0, 0, 20)
	random := rand.New(rand.NewPCG(1, 2))
	var claims []time.Time
	for at := start; at.Before(end); at = at.Add(time.Duration(random.ExpFloat64() * float64(time.Minute))) {
		claims = append(claims, at)
	}
	for _, miss := range []sizing.Miss{sizing.MissWaits, sizing.MissCold} {
		for _, size := range []int{3, 5, 8} {
			r := sizing.World{From: start, To: end, Claims: claims, Provision: 5 * time.Minute, Miss: miss}.Replay(sizing.Static(size))
			assert.InDelta(t, sizing.HitRate(miss, size, 5), r.HitRate(), 0.02, "%s, size %d", miss, size)
		}
	}
}

// Thin data asks for more than the same rate surely known, and much data for no more than the model.
func TestThinSize(t *testing.T) {
	t.Parallel()
	thin := sizing.ThinSize(2, 1, 0.99, 1000)
	thick := sizing.ThinSize(2000, 1000, 0.99, 1000)
	assert.Greater(t, thin, thick)
	assert.Equal(t, sizing.SizeFor(sizing.MissWaits, 2, 0.99, 1000), thick)
}

// ownBatches are claims of a rate an hour that come in geometric batches of `batch` on average, and the variance of claims over
// their mean that this makes.
func ownBatches(random *rand.Rand, start, end time.Time, perHour, batch float64) (claims []time.Time, spread float64) {
	for at := start; ; {
		at = at.Add(time.Duration(random.ExpFloat64() * batch / perHour * float64(time.Hour)))
		if !at.Before(end) {
			return claims, 2*batch - 1
		}
		for claims = append(claims, at); random.Float64() >= 1/batch; {
			claims = append(claims, at)
		}
	}
}

// A size for claims in batches is one that a replay of such claims confirms: they are two independent accounts of one pool.
func TestBatchSize(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	end := start.AddDate(0, 0, 60)
	for _, batch := range []float64{1, 3, 6} {
		for _, perHour := range []float64{2, 40} {
			claims, spread := ownBatches(rand.New(rand.NewPCG(7, uint64(batch))), start, end, perHour, batch)
			const provision, target = 5 * time.Minute, 0.95
			exposure := 1e6 // the rate is as good as known
			size := sizing.BatchSize(exposure*perHour*provision.Hours(), exposure, spread, target, 1000)
			world := sizing.World{From: start, To: end, Claims: claims, Provision: provision, Miss: sizing.MissWaits}
			assert.GreaterOrEqual(t, world.Replay(sizing.Static(size)).HitRate(), target-0.01, "batches of %v, %v an hour", batch, perHour)
			assert.Less(t, world.Replay(sizing.Static(size-1)).HitRate(), target+0.01, "batches of %v, %v an hour", batch, perHour)
		}
	}
	assert.Equal(t, 10_000, sizing.BatchSize(1e9, 1, 7, 0.99, 10_000), "more than can be")
	assert.InDelta(t, 20_000, sizing.BatchSize(20_000e6, 1e6, 1, 0.5, 100_000), 2, "what underflows is scaled")
}

func TestReplayByHand(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	at := func(minutes ...int) (claims []time.Time) {
		for _, m := range minutes {
			claims = append(claims, start.Add(time.Duration(m)*time.Minute))
		}
		return claims
	}
	world := sizing.World{From: start, To: start.Add(time.Hour), Claims: at(10, 11, 12, 30), Provision: 10 * time.Minute}
	for miss, want := range map[sizing.Miss]sizing.Replay{
		// One ready until 10; made anew by 20, 21 and 22 for who waits and for the pool; ready 22 to 30 and 40 to 60.
		sizing.MissWaits: {Claims: 4, Hits: 2, Idle: (10 + 8 + 20) * time.Minute, Span: time.Hour, Peak: 1},
		// Those that miss are gone: made anew by 20, ready 20 to 30 and 40 to 60.
		sizing.MissCold: {Claims: 4, Hits: 2, Idle: (10 + 10 + 20) * time.Minute, Span: time.Hour, Peak: 1},
	} {
		world.Miss = miss
		assert.Equal(t, want, world.Replay(sizing.Static(1)), miss)
	}
	world.Miss = sizing.MissWaits
	size, r := world.SmallestStatic(0.99, 100)
	assert.Equal(t, 3, size)
	assert.Equal(t, 4, r.Hits)
	require.InDelta(t, 1, sizing.Replay{}.HitRate(), 0, "nothing was missed")
}

package sizing_test

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sizing"
	"github.com/prewarm-dev/prewarm/coderd/sizing/sizingtest"
)

// judged are the settings under which autosize is judged.
var judged = sizing.Settings{Min: 1, Max: 100, Target: 0.99}

// verdict is over some traces of one shape.
type verdict struct{ hits, worst, idle float64 }

// worlds are the traces of a shape under the seeds.
func worlds(shape sizingtest.Shape, seeds []uint64) []sizing.World {
	made := make([]sizing.World, len(seeds))
	for i, seed := range seeds {
		made[i] = sizing.World{
			From: sizingtest.Start, To: sizingtest.Start.AddDate(0, 0, sizingtest.Days), Claims: shape.Trace(seed),
			Provision: sizingtest.ProvisionTime, Miss: sizing.MissWaits,
		}
	}
	return made
}

func judge(t *testing.T, worlds []sizing.World, sizer func() sizing.Sizer) verdict {
	t.Helper()
	v := verdict{worst: 1}
	for _, world := range worlds {
		r := world.Replay(sizer())
		require.NotZero(t, r.Claims)
		v.hits += r.HitRate() / float64(len(worlds))
		v.worst = min(v.worst, r.HitRate())
		v.idle += r.MeanIdle() / float64(len(worlds))
	}
	return v
}

// smallest is the smallest static size that reaches a mean hit rate over the same traces.
func smallest(t *testing.T, worlds []sizing.World, hits float64) (int, verdict) {
	t.Helper()
	static := func(size int) verdict {
		return judge(t, worlds, func() sizing.Sizer { return sizing.Static(size) })
	}
	size := sort.Search(128, func(size int) bool { return static(size).hits >= hits })
	require.Less(t, size, 128, "no static size reaches it")
	return size, static(size)
}

// rounds is how many of the seeds are taken: all with PREWARM_ROUNDS=20, else a few.
func rounds(t *testing.T, seeds []uint64, few int) []uint64 {
	t.Helper()
	n := few
	if rounds := os.Getenv("PREWARM_ROUNDS"); rounds != "" {
		var err error
		n, err = strconv.Atoi(rounds)
		require.NoError(t, err)
	}
	return seeds[:min(n, len(seeds))]
}

// compare judges autosize on shapes beside the smallest static size that reaches the same, and prints the table. It wants at
// least these hits, on average over several seeds and with each, and at most so much of the static size's idle prebuilds.
func compare(t *testing.T, shapes []sizingtest.Shape, seeds []uint64, hits, worst, idle float64) {
	t.Helper()
	var out strings.Builder
	fmt.Fprintf(&out, "\n%2d seeds        | autosize, target 99%%        | smallest static with the same       | idle,\n", len(seeds))
	fmt.Fprintf(&out, "                |  hits   worst  mean idle    | size   hits   worst  mean idle      | of it\n")
	for _, shape := range shapes {
		traces := worlds(shape, seeds)
		auto := judge(t, traces, func() sizing.Sizer { return sizing.Autosized(judged) })
		size, static := smallest(t, traces, auto.hits)
		fmt.Fprintf(&out, "%-15s | %5.2f%%  %5.2f%%  %6.1f        | %4d  %5.2f%%  %5.2f%%  %6.1f         |  %4.1f%%\n", shape.Name,
			100*auto.hits, 100*auto.worst, auto.idle, size, 100*static.hits, 100*static.worst, static.idle,
			100*auto.idle/static.idle)
		if len(seeds) > 1 {
			assert.GreaterOrEqual(t, auto.hits, hits, shape.Name)
		}
		assert.GreaterOrEqual(t, auto.worst, worst, shape.Name)
		assert.Less(t, auto.idle, idle*static.idle, shape.Name)
	}
	t.Log(out.String())
}

// Autosize with a target of 99 % over 28 days, from an empty history on, against the smallest static size that reaches the
// same. Without PREWARM_ROUNDS it is one seed; `make sizing` takes all, and prints the table of docs/SIZING.md.
func TestJudged(t *testing.T) {
	t.Parallel()
	seeds, half := rounds(t, sizingtest.JudgingSeeds, 1), 0.5
	if len(seeds) == 1 {
		half = 0.55 // one seed is not the mean of twenty
	}
	compare(t, sizingtest.Shapes, seeds, 0.985, 0.98, half)
}

// The shapes that it was tuned on, which are harder: batches nearly all day. PREWARM_ROUNDS=20 prints all seeds.
func TestTuned(t *testing.T) {
	t.Parallel()
	compare(t, sizingtest.Tuning, rounds(t, sizingtest.TuningSeeds, 1), 0.984, 0.975, 0.65)
}

// The promise: the target less at most half a point, on shapes that were committed before the work on it. What it costs is
// printed, and no more than what always as many would.
func TestPromised(t *testing.T) {
	t.Parallel()
	compare(t, sizingtest.Promised, rounds(t, sizingtest.JudgingSeeds, 3), 0.985, 0.975, 1)
}

// The same on the shapes that were held out.
func TestHeldOut(t *testing.T) {
	t.Parallel()
	compare(t, sizingtest.HeldOut, rounds(t, sizingtest.JudgingSeeds, 2), 0.985, 0.975, 1)
}

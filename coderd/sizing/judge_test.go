package sizing_test

import (
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/prewarm-dev/prewarm/coderd/sizing"
	"github.com/prewarm-dev/prewarm/coderd/sizing/sizingtest"
)

// judged are the settings under which autosize is judged: those of its documentation's example.
var judged = sizing.Settings{Min: 1, Max: 100, Target: 0.99}

// verdict is the mean and the worst over some traces of one shape.
type verdict struct {
	hits, worst, idle float64
}

func judge(shape sizingtest.Shape, seeds []uint64, sizer func() sizing.Sizer) verdict {
	v := verdict{worst: 1}
	for _, seed := range seeds {
		r := sizing.World{
			From: sizingtest.Start, To: sizingtest.Start.AddDate(0, 0, sizingtest.Days), Claims: shape.Trace(seed),
			Provision: sizingtest.ProvisionTime, Miss: sizing.MissWaits,
		}.Replay(sizer())
		v.hits += r.HitRate() / float64(len(seeds))
		v.worst = min(v.worst, r.HitRate())
		v.idle += r.MeanIdle() / float64(len(seeds))
	}
	return v
}

// smallest is the smallest static size that reaches a mean hit rate over the same traces.
func smallest(shape sizingtest.Shape, seeds []uint64, hits float64) (int, verdict) {
	for size := 1; ; size++ {
		v := judge(shape, seeds, func() sizing.Sizer { return sizing.Static(size) })
		if v.hits >= hits || size >= 200 {
			return size, v
		}
	}
}

func row(w io.Writer, shape sizingtest.Shape, seeds []uint64) (auto, static verdict) {
	auto = judge(shape, seeds, func() sizing.Sizer { return sizing.Autosized(judged) })
	size, static := smallest(shape, seeds, auto.hits)
	_, _ = fmt.Fprintf(w, "%-12s %8.2f %% %8.2f %% %8.1f %8d %8.2f %% %8.2f %% %8.1f %6.0f %%\n", shape.Name, 100*auto.hits,
		100*auto.worst, auto.idle, size, 100*static.hits, 100*static.worst, static.idle, 100*auto.idle/static.idle)
	return auto, static
}

func TestTune(t *testing.T) {
	start := time.Now()
	row(os.Stdout, sizingtest.Office, sizingtest.TuningSeeds)
	fmt.Println(time.Since(start))
}

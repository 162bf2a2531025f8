package sizingtest_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/prewarm-dev/prewarm/coderd/sizing/sizingtest"
)

// The traces are those that were there before any sizer was: this fails if a parameter, a seed or the generator changes.
func TestTracesAreTheOnesCommitted(t *testing.T) {
	t.Parallel()
	digest := map[string]string{}
	for _, shape := range slices.Concat(sizingtest.Shapes, sizingtest.Promised, sizingtest.HeldOut) {
		h := sha256.New()
		for _, seed := range slices.Concat(sizingtest.TuningSeeds, sizingtest.JudgingSeeds) {
			for _, at := range shape.Trace(seed) {
				h.Write(binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli())))
			}
		}
		digest[shape.Name] = hex.EncodeToString(h.Sum(nil)[:8])
	}
	assert.Equal(t, map[string]string{
		"office": "927579f95737cbd6", "ci": "e29fb35832e20f92", "two-offices": "9b89752da2b315ee",
		"round-the-clock": "aa046fe24554aff0", "team-of-ten": "57363da4c097c884", "growth-6": "0a791e4c88b18f81",
		"batches-8": "e09f47a29462045b", "matrices-12": "10f8b5ada8013941",
		"mixed-pushes": "8bd65c7b06d08c0c", "relay": "00513628bbf4da3c", "releases": "0e429883eef9f29c",
	}, digest)
}

func TestTraceHasItsShape(t *testing.T) {
	t.Parallel()
	for _, seed := range sizingtest.TuningSeeds[:5] {
		trace := sizingtest.Office.Trace(seed)
		assert.True(t, slices.IsSortedFunc(trace, time.Time.Compare))
		assert.InDelta(t, 20*375, len(trace), 1500, "claims in four weeks")
		night, burst := 0, 0
		for _, at := range trace {
			sinceMidnight := at.Sub(at.Truncate(24 * time.Hour))
			switch {
			case sinceMidnight < 5*time.Hour:
				night++
			case sinceMidnight >= 9*time.Hour+27*time.Minute && sinceMidnight < 9*time.Hour+43*time.Minute:
				burst++
			}
		}
		assert.Less(t, night, len(trace)/50)
		assert.Greater(t, burst, 19*14, "a stand-up on each working day")
	}
}

func TestSeedsAreApart(t *testing.T) {
	t.Parallel()
	assert.Len(t, sizingtest.TuningSeeds, 20)
	assert.Len(t, sizingtest.JudgingSeeds, 20)
	for _, seed := range sizingtest.JudgingSeeds {
		assert.NotContains(t, sizingtest.TuningSeeds, seed)
	}
}

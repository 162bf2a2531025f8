package sizingtest_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sizing/sizingtest"
)

// The traces are those that were there before any sizer was: this fails if a parameter, a seed or the generator changes.
func TestTracesAreTheOnesCommitted(t *testing.T) {
	t.Parallel()
	digest := map[string]string{}
	for _, shape := range sizingtest.Shapes {
		h := sha256.New()
		for _, seed := range slices.Concat(sizingtest.TuningSeeds, sizingtest.JudgingSeeds) {
			for _, at := range shape.Trace(seed) {
				require.NoError(t, binary.Write(h, binary.BigEndian, at.UnixMilli()))
			}
		}
		digest[shape.Name] = hex.EncodeToString(h.Sum(nil)[:8])
	}
	assert.Equal(t, map[string]string{
		"office": "927579f95737cbd6", "ci": "e29fb35832e20f92", "two-offices": "9b89752da2b315ee",
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

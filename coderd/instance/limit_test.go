package instance

import (
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"
)

// Tokens that are used no more do not fill the memory. Who has asked for too much is not forgotten with them.
func TestLimits(t *testing.T) {
	t.Parallel()
	clock := quartz.NewMock(t).WithLogger(quartz.NoOpLogger)
	l := newLimits(clock)
	for n := range int32(maxLimits) {
		require.True(t, l.allow(Bearer{Attempt: n}))
	}
	clock.Advance(burst / perSecond * time.Second)
	busy := Bearer{Attempt: 1}
	for range burst {
		require.True(t, l.allow(busy))
	}
	require.False(t, l.allow(busy))
	require.True(t, l.allow(Bearer{Attempt: maxLimits}))
	require.LessOrEqual(t, len(l.buckets), 2)
	require.False(t, l.allow(busy))
}

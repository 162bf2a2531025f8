package runners

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// A forge that fails now and then is well. One that only fails is left alone, for longer and longer, and after an answer as it should
// be it begins again. Another forge has no part in that.
func TestTroubles(t *testing.T) {
	t.Parallel()
	var all troubles
	id, other, now := uuid.New(), uuid.New(), time.Now()
	const s = time.Second
	for range 3 {
		for range sporadic {
			pause, alone := all.pause(id, now, time.Minute)
			require.False(t, alone)
			require.Equal(t, s, pause, "for what lists")
		}
		all.well(id)
	}
	for range sporadic {
		all.pause(id, now, time.Minute)
	}
	var got []time.Duration
	for range 8 {
		pause, alone := all.pause(id, now, time.Minute)
		require.True(t, alone)
		again, alone := all.pause(id, now.Add(pause-1), time.Minute)
		require.True(t, alone)
		require.Equal(t, pause, again, "a call that was under way")
		got = append(got, pause)
		now = now.Add(pause)
	}
	require.Equal(t, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, time.Minute, time.Minute}, got)
	_, alone := all.pause(other, now, time.Minute)
	require.False(t, alone)
	all.well(id)
	_, alone = all.pause(id, now, time.Minute)
	require.False(t, alone)
}

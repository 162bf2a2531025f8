package runners

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// A forge that fails once is left alone for a moment. While it goes on to fail it is asked less and less, and after an answer as it
// should be it begins again. Another forge has no part in that.
func TestTroubles(t *testing.T) {
	t.Parallel()
	var all troubles
	id, other, now := uuid.New(), uuid.New(), time.Now()
	var got []time.Duration
	for range 8 {
		pause := all.pause(id, now, time.Minute)
		require.Equal(t, pause, all.pause(id, now.Add(pause-1), time.Minute), "a call that was under way")
		got = append(got, pause)
		now = now.Add(pause)
	}
	const s = time.Second
	require.Equal(t, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, time.Minute, time.Minute}, got)
	require.Equal(t, s, all.pause(other, now, time.Minute))
	all.well(id)
	require.Equal(t, s, all.pause(id, now, time.Minute))
}

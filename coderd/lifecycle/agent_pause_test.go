package lifecycle

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// An agent that is awaited is asked about more rarely the longer it takes, but never less often than every 5 s.
func TestAgentPause(t *testing.T) {
	t.Parallel()
	for startingS, pause := range map[float64]time.Duration{
		0: time.Second, 10: time.Second, 20: 2 * time.Second, 45.5: 4550 * time.Millisecond, 50: 5 * time.Second,
		3600: 5 * time.Second,
	} {
		require.Equal(t, pause, agentPause(startingS), "after %v s", startingS)
	}
}

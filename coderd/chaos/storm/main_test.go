package storm_test

import (
	"context"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/prewarm-dev/prewarm/coderd" // so that a change of the server is not answered with a cached result
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
)

func TestMain(m *testing.M) { e2etest.Main(m) }

const (
	// patience is how long anything may take that takes seconds on an idle machine.
	patience = 3 * time.Minute
	poll     = 20 * time.Millisecond
)

// seed is given or random, and printed.
func seed(t *testing.T) uint64 {
	t.Helper()
	n := uint64(rand.Uint32())
	if given := os.Getenv("PREWARM_SEED"); given != "" {
		var err error
		n, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err, "PREWARM_SEED")
	}
	t.Logf("PREWARM_SEED=%d", n)
	return n
}

// length is how long faults are made.
func length(t *testing.T) time.Duration {
	t.Helper()
	given := os.Getenv("PREWARM_CHAOS")
	if given == "" {
		return 2 * time.Minute
	}
	d, err := time.ParseDuration(given)
	require.NoError(t, err, "PREWARM_CHAOS")
	return d
}

// complete says whether no fault may be left out.
func complete() bool { return os.Getenv("PREWARM_CHAOS_COMPLETE") != "" }

// eventually polls until ok, with a deadline that only a hang exceeds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, poll, what)
}

// rest waits, or returns false as soon as ctx ends.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// freeAddress is one where nothing listens at this moment, so that a server can come back to where it was.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

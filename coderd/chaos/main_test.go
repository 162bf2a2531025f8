package chaos_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/prewarm-dev/prewarm/coderd" // so that a change of the server is not answered with a cached result
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
)

func TestMain(m *testing.M) { e2etest.Main(m) }

const (
	// patience is how long anything may take that takes seconds on an idle machine; only a hang takes longer.
	patience  = 90 * time.Second
	pollEvery = 20 * time.Millisecond
)

// rounds is how often a test does the harm it is about.
func rounds(t *testing.T) int {
	t.Helper()
	given := os.Getenv("PREWARM_ROUNDS")
	if given == "" {
		return 6
	}
	n, err := strconv.Atoi(given)
	require.NoError(t, err, "PREWARM_ROUNDS")
	return n
}

// thorough says whether the full counts are run rather than the short ones of CI.
func thorough(t *testing.T) bool { return rounds(t) >= 50 }

// random is the test's source of randomness.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if given := os.Getenv("PREWARM_SEED"); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err, "PREWARM_SEED")
	}
	t.Logf("PREWARM_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// folder makes a folder with a path so short that the socket of a PostgreSQL fits in. What still runs in it, or of it,
// ends with the test: workspaces outlive their server by design.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "chaos-")
	require.NoError(t, err)
	t.Cleanup(func() {
		for _, p := range workspaceProcesses(t, dir) {
			p.kill()
		}
		eventually(t, "the folder is removed", func() bool { return os.RemoveAll(dir) == nil })
	})
	return dir
}

// public is a folder that workspaces, which run as users of their own, can look into.
func public(t *testing.T) string {
	t.Helper()
	dir := folder(t)
	require.NoError(t, os.Chmod(dir, 0o755))
	return dir
}

// eventually polls until ok, with a deadline that only a hang exceeds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, pollEvery, what)
}

// pause waits for a random time up to most; harm comes at any moment.
func pause(r *rand.Rand, most time.Duration) {
	<-time.After(time.Duration(r.Int64N(int64(most))))
}

func write(t *testing.T, dir, name, content string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

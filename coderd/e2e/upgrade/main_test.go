package upgrade_test

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
)

func TestMain(m *testing.M) { e2etest.Main(m) }

// releaseBefore is the commit that runs beside this one. A release moves it to the commit of the release before.
const releaseBefore = "10fe62d96c21cbb26a3ea6e884b29e73d827243a"

const (
	patience = 2 * time.Minute // what takes seconds on an idle machine
	poll     = 50 * time.Millisecond
)

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, poll, what)
}

// olderBinary is the binary of the release before, with its web UI. Without the history the test is left out, but in CI it
// fails.
func olderBinary(t *testing.T) string {
	t.Helper()
	binary, err := e2etest.Older(t, releaseBefore, true)
	if errors.Is(err, e2etest.ErrNoCommit) && os.Getenv("CI") == "" {
		t.Skipf("LEFT OUT: no upgrade is tried: %v", err)
	}
	require.NoError(t, err)
	return binary
}

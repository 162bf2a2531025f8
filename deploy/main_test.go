package deploy_test

import (
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
)

func TestMain(m *testing.M) { e2etest.Main(m) }

const (
	patience = 2 * time.Minute // what takes seconds on an idle machine
	poll     = 20 * time.Millisecond
)

func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, poll, what)
}

// freeAddress is one where nothing listens at this moment, so that a server can come back to where it was.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// missing ends a test that needs what is not here, and says what to install: where CI is set (as CI itself does) it fails,
// so that nothing is left out there unseen; elsewhere it is left out.
func missing(t testing.TB, what string) {
	t.Helper()
	if leftOutFails() {
		t.Fatal("CI leaves nothing out: " + what)
	} else {
		t.Skip("LEFT OUT: " + what)
	}
}

// leftOutFails says whether this is CI.
func leftOutFails() bool {
	ci := os.Getenv("CI")
	return ci != "" && ci != "false" && ci != "0"
}

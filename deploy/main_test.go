package deploy_test

import (
	"net"
	"os"
	"sync/atomic"
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

var addresses atomic.Uint32

// freeAddress is a port on a loopback address of its own, so that a server can stop and listen there again. At 127.0.0.1 the
// kernel could give the port to another program meanwhile.
func freeAddress(t testing.TB) string {
	t.Helper()
	n := addresses.Add(1)
	l, err := net.Listen("tcp", net.JoinHostPort(net.IPv4(127, 1, byte(n>>8), byte(n)).String(), "0"))
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

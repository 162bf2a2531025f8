package streams_test

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/streams"
)

// A peer that pings without end and reads nothing loses its session: each answer would wait in a goroutine.
func TestPingsAreBounded(t *testing.T) {
	t.Parallel()
	here, there := net.Pipe()
	session, err := streams.Accept(here)
	require.NoError(t, err)
	defer session.Close()
	before := runtime.NumGoroutine()
	ping := []byte{0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0}
	for written := 0; err == nil; {
		require.Less(t, written, 1<<20, "pings are read on")
		var n int
		n, err = there.Write(bytes.Repeat(ping, 100))
		written += n
	}
	require.ErrorIs(t, err, io.ErrClosedPipe)
	<-session.CloseChan()
	require.Less(t, runtime.NumGoroutine(), before+1000)
}

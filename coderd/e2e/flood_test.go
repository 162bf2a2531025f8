package e2e_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/programtest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// Clients without a token who announce a body and send a byte of it, more than a server's files, with the limits of a
// small one: claims are served meanwhile, each within a time that only a server that hangs exceeds.
func TestFlood_slowBodies(t *testing.T) {
	t.Parallel()
	small := filepath.Join(t.TempDir(), "prewarm")
	programtest.Write(t, small, []byte("#!/bin/sh\nulimit -n 600\nexec "+e2etest.Binary(t)+" \"$@\"\n"), 0o700)
	server := e2etest.Start(t, e2etest.Options{PostgresURL: dbtest.URL(t), Tick: time.Second, Binary: small})
	const pool = `
providers: [{name: cloud, kind: sim}]
templates:
  - name: a
    provider: cloud
    spec: {}
    presets: [{name: default, prebuilds: {instances: 5}}]
`
	_, err := server.Client.Apply(t.Context(), sdk.ApplyRequest{Document: pool})
	require.NoError(t, err)
	eventually(t, "a pool", func() bool { return preset(t.Context(), t, server.Client, "a").Eligible == 5 })

	to, err := url.Parse(server.URL)
	require.NoError(t, err)
	for range 1000 {
		c, err := net.Dial("tcp", to.Host)
		require.NoError(t, err)
		defer c.Close()
		_, err = fmt.Fprintf(c, "POST /api/v1/claims HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: 200000\r\n\r\n{", to.Host)
		if err == nil {
			_ = c.SetReadDeadline(time.Now().Add(time.Millisecond))
			_, _ = io.ReadFull(c, make([]byte, 1)) // it is sent before the next one
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // only a server that hangs takes so long
	defer cancel()
	for range 5 { // each on a connection of its own
		out := e2etest.Run(ctx, t, []string{"PREWARM_URL=" + server.URL, "PREWARM_TOKEN=" + server.Client.Token},
			"claim", "a/default", "--mode", "require")
		require.Zero(t, out.Status, out.Stderr)
		require.Contains(t, out.Stdout, "hit")
	}
}

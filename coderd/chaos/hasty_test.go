package chaos_test

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// Clients give up while the replica that they asked is frozen, and ask nobody again. None of them has a workspace when it has gone on
// and ended, although their requests, with keys, were on its sockets (docs/decisions/0049).
func TestHastyClients(t *testing.T) {
	t.Parallel()
	const clients = 20
	url := dbtest.URL(t)
	store := openStore(t, url)
	server := e2etest.Start(t, e2etest.Options{PostgresURL: url, Tick: time.Second})
	apply(t, server.Client, fmt.Sprintf(`
templates:
  - name: chaos
    provider: sim
    spec: {}
    presets:
      - name: one
        prebuilds: {instances: %d}
`, clients))
	eventually(t, "all are ready", func() bool {
		return number(t, store, "SELECT count(*) FROM workspaces WHERE state = 'ready'") == clients
	})
	for n := range clients {
		server.Signal(syscall.SIGSTOP)
		hasty, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		_, err := server.Client.Claim(hasty, sdk.ClaimRequest{Template: "chaos", Preset: "one", Mode: "require", Key: fmt.Sprint(n)})
		cancel()
		require.Error(t, err, "a frozen replica answers nothing")
		server.Signal(syscall.SIGCONT)
	}
	require.Zero(t, server.Stop(), "what was asked is over")
	require.Zero(t, number(t, store, "SELECT count(*) FROM claims WHERE state <> 'released'"))
	require.Zero(t, number(t, store, "SELECT count(*) FROM workspaces WHERE state = 'claimed'"))
}

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/sim"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// S2, S4, S5 with real servers and a provider that is not `hosts`: all machines but that of another installation are taken in;
// claims and a kill -9 lead to no machine with two workspaces, and to none that is lost.
func TestReservations(t *testing.T) {
	t.Parallel()
	const n = 6
	ctx, root, url := t.Context(), t.TempDir(), dbtest.URL(t)
	store := dbtest.OpenURL(t, url, database.Options{})
	cloud, err := sim.New(sim.Options{Root: root, Machines: n})
	require.NoError(t, err)
	foreign := provider.CreateRequest{
		Name: "another", Machine: sim.MachineID(3), Tags: provider.Tags{Installation: uuid.New(), WorkspaceID: uuid.New(), Incarnation: 1},
	}
	_, err = cloud.Create(ctx, foreign)
	require.NoError(t, err)
	servers := e2etest.StartAll(t, 2, e2etest.Options{PostgresURL: url, Tick: 300 * time.Millisecond})
	_, err = servers[0].Client.Apply(ctx, sdk.ApplyRequest{Document: fmt.Sprintf(`
providers: [{name: fleet, kind: sim, create_every: 1s, create_burst: 100, config: {root: %q, machines: %d}}]
templates:
  - name: bare
    provider: fleet
    spec: {create_latency: 1ms-50ms, delete_latency: 1ms-50ms}
    presets: [{name: default, prebuilds: {instances: all}}]
`, root, n)})
	require.NoError(t, err)
	full := func(c *sdk.Client) func() bool {
		return func() bool {
			list, err := c.Workspaces(ctx, sdk.WorkspaceFilter{Template: "bare", State: "ready"})
			return err == nil && len(list.Workspaces) == n-1
		}
	}
	eventually(t, "all machines but the other's", full(servers[1].Client))

	var users sync.WaitGroup
	for range 3 {
		users.Go(func() {
			c := servers[1].Client
			for range 6 {
				claim, err := c.Claim(ctx, sdk.ClaimRequest{Template: "bare", Preset: "default", Mode: "prefer", Wait: "1m"})
				if !assert.NoError(t, err) {
					return
				}
				_, err = c.ReleaseWorkspace(ctx, claim.Name)
				assert.NoError(t, err)
			}
		})
	}
	servers[0].Kill()
	users.Wait()
	eventually(t, "all of them again", full(servers[1].Client))
	twice, err := cloud.Duplicates()
	require.NoError(t, err)
	require.Empty(t, twice)
	there, err := cloud.Get(ctx, provider.Ref{Name: foreign.Name, Machine: foreign.Machine})
	require.NoError(t, err)
	require.Equal(t, foreign.Tags, there.Tags, "what another installation has is not touched")

	// The table that people see agrees with the cloud.
	eventually(t, "a listing of now", func() bool {
		_, err := store.Pool.Exec(context.WithoutCancel(ctx), "UPDATE providers SET machines_begun_at = NULL WHERE name = 'fleet'")
		require.NoError(t, err)
		machines, err := servers[1].Client.Machines(ctx, "fleet")
		require.NoError(t, err)
		used := 0
		for _, m := range machines {
			if m.State == "used" {
				used++
			}
		}
		return used == n
	})
	shown := e2etest.Run(ctx, t, as(t, servers[1]), "provider", "machines", "fleet")
	require.Zero(t, shown.Status, shown.Stderr)
	require.Equal(t, n-1, strings.Count(shown.Stdout, "prebuild-"), shown.Stdout)
	require.Contains(t, shown.Stdout, "another")
}

package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// S3: everything at a provider fails for a while, between two inventories. The breaker opens by the calls that fail and closes
// by the first that succeed, in real time; claims go on; and deletes are tried while it is open, so that none waits for it. The
// outage lasts until all this was seen, or for PREWARM_OUTAGE (60s); what the log says at the end is what
// docs/reliability/rules.md has of it.
func TestProviderOutage(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	executable, config := filepath.Join(dir, "provider"), filepath.Join(dir, "config.json")
	require.NoError(t, externaltest.Build(executable))
	well := externaltest.Config{Root: filepath.Join(dir, "cloud")}
	down := well
	down.Fault = externaltest.Broken
	require.NoError(t, well.Write(config))
	server := e2etest.Start(t, e2etest.Options{PostgresURL: dbtest.URL(t), Tick: 300 * time.Millisecond})
	const pool = 5
	_, err := server.Client.Apply(ctx, sdk.ApplyRequest{Document: fmt.Sprintf(`
providers:
  - {name: cloud, kind: external, maximum: 20, inventory_every: 1h, config: {executable: %q, config_file: %q}}
templates:
  - {name: vms, provider: cloud, spec: {image: ubuntu, flavor: small}, presets: [{name: default, prebuilds: {instances: %d}}]}
`, executable, config, pool)})
	require.NoError(t, err)

	cloud := func() (is sdk.Provider) {
		providers, err := server.Client.Providers(ctx)
		assert.NoError(t, err)
		for _, p := range providers {
			if p.Name == "cloud" {
				is = p
			}
		}
		return is
	}
	live := func() []sdk.Workspace {
		list, err := server.Client.Workspaces(ctx, sdk.WorkspaceFilter{})
		assert.NoError(t, err)
		return list.Workspaces
	}
	claimed := func() sdk.Claim {
		claim, err := server.Client.Claim(ctx, sdk.ClaimRequest{Template: "vms", Preset: "default"})
		require.NoError(t, err)
		return claim
	}
	release := func(name string) {
		_, err := server.Client.ReleaseWorkspace(ctx, name)
		require.NoError(t, err)
	}
	// calls are those that began in a span of time and that an outage lets fail, in the order of their beginnings.
	calls := func(from, to time.Time) []externaltest.Call {
		var found []externaltest.Call
		for line := range strings.Lines(content(t, well.Root, "calls")) {
			var call externaltest.Call
			assert.NoError(t, json.Unmarshal([]byte(line), &call))
			asks := strings.HasPrefix(call.Command, "Get") && call.Command != "GetInstance"
			if !asks && !call.At.Before(from) && call.At.Before(to) {
				found = append(found, call)
			}
		}
		return found
	}
	eventually(t, "the pool is warm, and its inventory was made", func() bool {
		sites := cloud().Sites
		return len(live()) == pool && readyOf(live()) == pool && len(sites) == 1 && sites[0].Last != nil
	})

	before := cloud().Sites[0].Last.EndedAt
	begin := time.Now()
	require.NoError(t, down.Write(config))
	first, second := claimed(), claimed()
	require.Equal(t, "hit", first.Outcome)
	require.Equal(t, "hit", second.Outcome)
	release(first.Name)
	eventually(t, "the breaker opens, by the calls that fail", func() bool { return cloud().Breaker != nil })
	opened := time.Now()
	require.Contains(t, cloud().Breaker.Reason, "calls failed")
	failed := calls(begin, opened)
	require.GreaterOrEqual(t, len(failed), 10, "the breaker opened sooner than it may")

	release(second.Name)
	eventually(t, "what is released while the breaker is open is tried to be deleted", func() bool {
		detail, err := server.Client.Workspace(ctx, second.WorkspaceID.String())
		assert.NoError(t, err)
		return detail.Job != nil && detail.Job.Kind == "delete" && detail.Job.Failures > 0
	})
	require.NotNil(t, cloud().Breaker, "the outage goes on, so the breaker must be open")
	require.Equal(t, "hit", claimed().Outcome, "claims go on")
	if long := os.Getenv("PREWARM_OUTAGE"); long != "" {
		span, err := time.ParseDuration(long)
		require.NoError(t, err)
		eventually(t, "the outage has lasted as long as it is to", func() bool {
			assert.NotNil(t, cloud().Breaker, "the outage goes on, so the breaker must be open")
			return time.Since(begin) >= span
		})
	}

	end := time.Now()
	require.NoError(t, well.Write(config))
	eventually(t, "the breaker closes, by the calls that succeed", func() bool { return cloud().Breaker == nil })
	closed := time.Now()
	good := calls(end, closed)
	require.NotEmpty(t, good)
	require.Equal(t, before, cloud().Sites[0].Last.EndedAt, "no inventory was made meanwhile: calls alone have done this")
	eventually(t, "the pool is warm again, and what was released is gone", func() bool {
		return len(live()) == pool+1 && readyOf(live()) == pool // one is claimed
	})
	t.Logf("an outage of %.1f s: the breaker opened %.1f s after the tenth call that failed, %d calls were made while it was"+
		" open, and it closed %.1f s after the first that succeeded; all was well %.1f s later", end.Sub(begin).Seconds(),
		opened.Sub(failed[9].At).Seconds(), len(calls(opened, end)), closed.Sub(good[0].At).Seconds(),
		time.Since(closed).Seconds())
}

// readyOf counts those that can be claimed.
func readyOf(workspaces []sdk.Workspace) int {
	n := 0
	for _, w := range workspaces {
		if w.State == "ready" {
			n++
		}
	}
	return n
}

package e2e_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// failedReport is what the script of an executable says that could not install a runner, in the words of GARM's scripts. The
// server's answer tells that it has heard.
const failedReport = `#!/bin/sh
url="{{ .CallbackURL }}"
case "$url" in */status) ;; *) url="$url/status" ;; esac
curl --retry 5 --retry-connrefused --fail -s -X POST -d '{"status": "failed", "message": "failed to download the runner"}' \
  -H 'Accept: application/json' -H 'Content-Type: application/json' -H "Authorization: Bearer {{ .CallbackToken }}" "$url" && echo told > told
`

// A pool on an executable that speaks v0.1.0 only and behaves as real ones do: it has no schema, is busy for the first deletes of
// each instance, and its instances report that they have failed. What it makes is the pool and one for each claim, and nothing
// more. PREWARM_GARM_MINUTES lets it go on for so long; by itself it is three rounds.
func TestExternalPool_ofAnExecutableAsItIs(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	dir := t.TempDir()
	executable, config := filepath.Join(dir, "provider"), filepath.Join(dir, "config.json")
	require.NoError(t, externaltest.Build(executable))
	cloud := filepath.Join(dir, "cloud")
	require.NoError(t, externaltest.Config{Root: cloud, Protocol: "v0.1.0", Boots: true, Busy: 2}.Write(config))
	t.Cleanup(func() { // instances outlive the server
		machines, _ := filepath.Glob(filepath.Join(cloud, "machines", "*"))
		for _, home := range machines {
			endSession(home)
		}
	})
	server := e2etest.Start(t, e2etest.Options{PostgresURL: dbtest.URL(t), Tick: 300 * time.Millisecond})
	const pool = 5
	_, err := server.Client.Apply(ctx, sdk.ApplyRequest{Document: fmt.Sprintf(`
providers:
  - {name: cloud, kind: external, maximum: 20, inventory_every: 1s, config: {executable: %q, config_file: %q}}
templates:
  - name: vms
    provider: cloud
    spec: {image: ubuntu, flavor: small, extra_specs: {runner_install_template: %q}}
    presets: [{name: default, prebuilds: {instances: %d}}]
`, executable, config, base64.StdEncoding.EncodeToString([]byte(failedReport)), pool)})
	require.NoError(t, err)

	count := func(pattern string) int {
		found, err := filepath.Glob(filepath.Join(cloud, pattern))
		require.NoError(t, err)
		return len(found)
	}
	warm := func() bool {
		list, err := server.Client.Workspaces(ctx, sdk.WorkspaceFilter{State: "ready"})
		return err == nil && len(list.Workspaces) == pool && count("machines/*/told") == pool
	}
	var end time.Time
	if long := os.Getenv("PREWARM_GARM_MINUTES"); long != "" {
		span, err := time.ParseDuration(long + "m")
		require.NoError(t, err)
		end = time.Now().Add(span)
	}
	claims := 0
	for round := 0; round < 3 || time.Now().Before(end); round++ {
		eventually(t, "the pool is warm, and all of it has reported that it failed", warm)
		claim, err := server.Client.Claim(ctx, sdk.ClaimRequest{Template: "vms", Preset: "default", Mode: "require"})
		require.NoError(t, err)
		claims++
		_, err = server.Client.ReleaseWorkspace(ctx, claim.Name)
		require.NoError(t, err)
		eventually(t, "the released one is gone, though the executable was busy", func() bool {
			return count("machines/"+claim.Name+"-*") == 0
		})
	}
	eventually(t, "the pool is warm at the end", warm)
	created, deleted := 0, 0
	for line := range strings.Lines(content(t, cloud, "calls")) {
		var call externaltest.Call
		require.NoError(t, json.Unmarshal([]byte(line), &call))
		switch call.Command {
		case "CreateInstance":
			created++
		case "DeleteInstance":
			deleted++
		}
	}
	require.Equal(t, pool+claims, created, "created = initial + claims")
	require.GreaterOrEqual(t, deleted, 3*claims, "each was refused twice")
	t.Logf("%d claims, %d creates, %d deletes", claims, created, deleted)
}

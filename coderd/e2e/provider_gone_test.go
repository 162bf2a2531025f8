package e2e_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/coderdtest"
	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/external/externaltest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// A provider of which nothing works any more, each time for another reason: the server starts, what is to be deleted says
// why it can't be, force ends it, and when the provider comes back all goes on.
func TestProviderGone(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	dir := t.TempDir()
	executable, config := filepath.Join(dir, "cloud-provider"), filepath.Join(dir, "config.json")
	cloud := externaltest.Config{Root: filepath.Join(dir, "cloud")}
	require.NoError(t, externaltest.Build(executable))
	require.NoError(t, cloud.Write(config))

	options := e2etest.Options{PostgresURL: dbtest.URL(t), DataDir: t.TempDir(), Replica: "only", Tick: 500 * time.Millisecond}
	server := e2etest.Start(t, options)
	configuration := sdk.ApplyRequest{Document: `
providers:
  - {name: cloud, kind: external, config: {executable: ` + executable + `, config_file: ` + config + `}}
templates:
  - name: vm
    provider: cloud
    spec: {image: ubuntu, flavor: small}
    presets: [{name: default, prebuilds: {instances: 1}}]
`}
	_, err := server.Client.Apply(ctx, configuration)
	require.NoError(t, err)

	for _, gone := range []struct {
		name       string
		harm, heal func()
		restart    bool
		cause      string
	}{
		{
			name: "credentials expired", cause: "the credentials have expired",
			harm: func() { broken := cloud; broken.Fault = externaltest.Broken; require.NoError(t, broken.Write(config)) },
			heal: func() { require.NoError(t, cloud.Write(config)) },
		}, {
			name: "executable missing", cause: "executable", restart: true,
			harm: func() { require.NoError(t, os.Rename(executable, executable+".away")) },
			heal: func() { require.NoError(t, os.Rename(executable+".away", executable)) },
		},
	} {
		client := server.Client
		coderdtest.Eventually(t, gone.name+": the pool is full", mended(t, server))
		claim, err := client.Claim(ctx, sdk.ClaimRequest{Template: "vm", Preset: "default", Mode: "require"})
		require.NoError(t, err)
		coderdtest.Eventually(t, gone.name+": the pool is full again", mended(t, server))
		// No creates meanwhile: however slow this machine is, it is the deletes that are looked at.
		_, err = client.Pause(ctx, sdk.PauseRequest{Scope: "template", Target: "vm", Reason: gone.name})
		require.NoError(t, err)
		if gone.restart {
			require.Zero(t, server.Stop())
		}
		gone.harm()
		if gone.restart {
			server = e2etest.Start(t, options)
			client = server.Client
		}

		_, err = client.ReleaseWorkspace(ctx, claim.Name)
		require.NoError(t, err)
		var shown sdk.Workspace
		coderdtest.Eventually(t, gone.name+": the delete is retried with its cause", func() bool {
			shown, err = client.Workspace(ctx, claim.Name)
			require.NoError(t, err)
			return shown.Job != nil && shown.Job.Kind == "delete" && shown.Job.Failures > 0
		})
		require.Equal(t, "deleting", shown.State)
		require.Contains(t, shown.Job.LastError, gone.cause)
		listed := e2etest.Run(ctx, t, as(t, server), "workspace", "list", "--state", "deleting")
		require.Zero(t, listed.Status, listed.Stderr)
		require.Contains(t, listed.Stdout, "delete failed")
		require.Contains(t, listed.Stdout, gone.cause)

		forced := e2etest.Run(ctx, t, as(t, server), "workspace", "delete", "--force", "--yes", claim.Name)
		require.Zero(t, forced.Status, forced.Stderr)
		coderdtest.Eventually(t, gone.name+": force ends it", func() bool {
			shown, err = client.Workspace(ctx, claim.Name)
			require.NoError(t, err)
			return shown.State == "deleted"
		})
		require.Contains(t, shown.Fault, "deleted by force although: ")
		require.Contains(t, shown.Fault, gone.cause)
		last := shown.History[len(shown.History)-1]
		require.Equal(t, "deleted", last.To)
		require.Positive(t, last.Failures, "the timeline tells how often it was tried")

		gone.heal()
		require.NoError(t, client.Resume(ctx, "template", "vm"))
	}
	coderdtest.Eventually(t, "all is well", mended(t, server))

	// Gone for good, and deleted by force: only what is claimed is left, and goes when it is released. Applied again, it is back.
	client, run := server.Client, func(args ...string) e2etest.Outcome { return e2etest.Run(ctx, t, as(t, server), args...) }
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(run("preset", "explain", "vm/default").Stdout)
		}
	})
	claim, err := client.Claim(ctx, sdk.ClaimRequest{Template: "vm", Preset: "default", Mode: "require"})
	require.NoError(t, err)
	require.Contains(t, run("workspace", "show", claim.Name).Stdout, "ubuntu", "the provider says that it is one")
	coderdtest.Eventually(t, "the pool is full again", mended(t, server))
	require.NoError(t, os.Rename(executable, executable+".away"))
	forced := run("provider", "delete", "cloud", "--yes", "--force")
	require.Zero(t, forced.Status, forced.Stderr)
	coderdtest.Eventually(t, "the pool runs empty", func() bool { return empty(t, client) })
	require.Equal(t, "claimed", stateOf(t, client, claim.Name))
	_, err = client.ReleaseWorkspace(ctx, claim.Name)
	require.NoError(t, err)
	coderdtest.Eventually(t, "a release does not wait for it", func() bool { return stateOf(t, client, claim.Name) == "deleted" })
	require.Contains(t, run("workspace", "show", claim.Name).Stdout, "given up with its provider although: ")
	require.NoError(t, os.Rename(executable+".away", executable))
	_, err = client.Apply(ctx, configuration)
	require.NoError(t, err)
	coderdtest.Eventually(t, "in the end all is well", mended(t, server))
}

// A provider is deleted by the command: refused with who uses it, by force all the same. What is claimed there goes on, with
// the last of it the provider is listed no more, and applied again it is as it was.
func TestProviderDeleted(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := e2etest.Start(t, e2etest.Options{
		PostgresURL: dbtest.URL(t), DataDir: t.TempDir(), Replica: "only", Tick: 500 * time.Millisecond,
	})
	client := server.Client
	const configuration = `
providers:
  - {name: cloud, kind: sim, inventory_every: 1s}
templates:
  - name: vm
    provider: cloud
    spec: {}
    presets: [{name: default, prebuilds: {instances: 1}}]
`
	apply := func() {
		t.Helper()
		_, err := client.Apply(ctx, sdk.ApplyRequest{Document: configuration})
		require.NoError(t, err)
		coderdtest.Eventually(t, "the pool is full", full(t, client))
	}
	apply()
	claim, err := client.Claim(ctx, sdk.ClaimRequest{Template: "vm", Preset: "default", Mode: "require"})
	require.NoError(t, err)
	coderdtest.Eventually(t, "the pool is full again", full(t, client))
	_, err = client.Pause(ctx, sdk.PauseRequest{Scope: "provider", Target: "cloud", Reason: "it moves"})
	require.NoError(t, err)

	run := func(args ...string) e2etest.Outcome { return e2etest.Run(ctx, t, as(t, server), args...) }
	refused := run("provider", "delete", "cloud", "--yes")
	require.NotZero(t, refused.Status)
	require.Contains(t, refused.Stderr, "is used by template vm (version 1), and has workspaces of template vm version 1 (1 claimed, 1 unclaimed)")
	forced := run("provider", "delete", "cloud", "--yes", "--force")
	require.Zero(t, forced.Status, forced.Stderr)
	require.Contains(t, forced.Stdout, "Deleted provider cloud.")
	coderdtest.Eventually(t, "the pool runs empty, and no pause holds it", func() bool { return empty(t, client) })
	require.Contains(t, run("preset", "explain", "vm/default").Stdout, "provider deleted")
	require.Contains(t, run("provider", "list").Stdout, "1 workspace left")
	require.Equal(t, "claimed", stateOf(t, client, claim.Name), "what is claimed goes on")
	missed, err := client.Claim(ctx, sdk.ClaimRequest{Template: "vm", Preset: "default", Mode: "require"})
	require.NoError(t, err)
	require.Equal(t, "the provider of the template is deleted", missed.Reason)

	_, err = client.ReleaseWorkspace(ctx, claim.Name)
	require.NoError(t, err)
	coderdtest.Eventually(t, "it is listed no more after the last of it", func() bool {
		return !strings.Contains(run("provider", "list").Stdout, "cloud")
	})
	require.NotContains(t, run("inventory").Stdout, "cloud")
	apply()
}

// empty says that the pool has nothing, and wants nothing.
func empty(t *testing.T, client *sdk.Client) bool {
	t.Helper()
	p, err := client.Preset(context.Background(), "vm", "default")
	require.NoError(t, err)
	return p.Desired+p.Actual+p.Starting+p.Stopping+p.Deleting == 0
}

func stateOf(t *testing.T, client *sdk.Client, workspace string) string {
	t.Helper()
	w, err := client.Workspace(context.Background(), workspace)
	require.NoError(t, err)
	return w.State
}

// full says that the pool has what it desires, and nothing is under way.
func full(t *testing.T, client *sdk.Client) func() bool {
	t.Helper()
	return func() bool {
		p, err := client.Preset(context.Background(), "vm", "default")
		require.NoError(t, err)
		return p.Eligible == p.Desired && p.Starting+p.Stopping+p.Deleting == 0
	}
}

// mended is full, once a person has done what explain says. An inventory may have come while the provider was away, and opened
// its breaker, which three clean ones would close.
func mended(t *testing.T, server *e2etest.Server) func() bool {
	t.Helper()
	return func() bool {
		listed, err := server.Client.Providers(context.Background())
		require.NoError(t, err)
		for _, p := range listed {
			if p.Name == "cloud" && p.Breaker != nil {
				resumed := e2etest.Run(context.Background(), t, as(t, server), "provider", "resume", "cloud")
				require.Zero(t, resumed.Status, resumed.Stderr)
			}
		}
		return full(t, server.Client)()
	}
}

// as is the environment of a command that speaks to the server as its owner.
func as(t *testing.T, s *e2etest.Server) []string {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(s.DataDir, "owner-token"))
	require.NoError(t, err)
	return []string{"PREWARM_URL=" + s.URL, "PREWARM_TOKEN=" + strings.TrimSpace(string(token))}
}

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

const containers = `
providers:
  - name: docker
    kind: docker
    config: {host: %q, network: %q, callback_host: %q}
templates:
  - name: containers
    provider: docker
    boot_timeout: 5m
    agent:
      on_start: [/bin/guest, write, /tmp/started, "$PREWARM_WORKSPACE"]
      on_claim: [/bin/guest, write, /tmp/claimed, "$PREWARM_OWNER $PARAM_KEY"]
    spec: {image: %q, pull: never, ports: [8080]}
    presets: [{name: default, prebuilds: {instances: 1}}]
`

// The whole way with the real binary and a real engine: a pool of containers, whose agents report from inside; a claim,
// whose on_claim runs there; exec and logs; and a release after which the engine has nothing but the pool's next one.
func TestDocker(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	engine := dockertest.Start(t)
	image := engine.Image(t)
	network, gateway := engine.Network(t)
	listen := freeListen(t)
	_, port, _ := strings.Cut(listen, ":")
	server := e2etest.Start(t, e2etest.Options{
		PostgresURL: dbtest.URL(t), Listen: gateway.String() + ":" + port, Tick: 300 * time.Millisecond,
		// What the server thinks that it is reached by means another machine inside of a container.
		Args: []string{"--access-url", "http://localhost:" + port},
	})
	document := fmt.Sprintf(containers, engine.Host, network, gateway, image)
	_, err := server.Client.Apply(ctx, sdk.ApplyRequest{Document: document})
	require.NoError(t, err)

	ready := func() (list []sdk.Workspace) {
		found, err := server.Client.Workspaces(ctx, sdk.WorkspaceFilter{State: "ready"})
		if err == nil {
			list = found.Workspaces
		}
		return list
	}
	eventually(t, "the agent reports that it is ready", func() bool { return len(ready()) == 1 })
	claim, err := server.Client.Claim(ctx, sdk.ClaimRequest{
		Template: "containers", Preset: "default", Mode: "require", Parameters: map[string]string{"key": "late"},
	})
	require.NoError(t, err)
	require.Equal(t, "hit", claim.Outcome)
	require.True(t, strings.HasPrefix(claim.Environment["PREWARM_PORT_8080"], "127.0.0.1:"), "%v", claim.Environment)
	eventually(t, "on_claim has run", func() bool {
		shown, err := server.Client.Workspace(ctx, claim.Name)
		return err == nil && shown.Agent != nil && shown.Agent.Status == "claim-ready"
	})

	as := []string{"PREWARM_URL=" + server.URL, "PREWARM_TOKEN=" + server.Client.Token}
	cli := func(args ...string) e2etest.Outcome { return e2etest.Run(ctx, t, as, args...) }
	shown := cli("workspace", "exec", claim.Name, "--", "/bin/guest", "cat", "/tmp/started", "/tmp/claimed")
	require.Equal(t, claim.Name+"\nowner late\n", shown.Stdout, shown.Stderr)
	require.Equal(t, 5, cli("workspace", "exec", claim.Name, "--", "/bin/guest", "exit", "5").Status)
	// A client that vanishes takes its command with it, and what that started.
	clientCtx, vanish := context.WithCancel(ctx)
	vanished := make(chan e2etest.Outcome, 1)
	go func() {
		vanished <- e2etest.Run(clientCtx, t, as, "workspace", "exec", claim.Name, "--", "/bin/guest", "hang")
	}()
	runs := func(what string) bool {
		return strings.Contains(cli("workspace", "exec", claim.Name, "--", "/bin/guest", "ps").Stdout, what)
	}
	eventually(t, "its child runs", func() bool { return runs("guest hang child") })
	vanish()
	require.Equal(t, -1, (<-vanished).Status, "it was killed")
	eventually(t, "nothing of it runs", func() bool { return !runs("guest hang") })
	require.True(t, runs("guest serve"))
	logs := cli("workspace", "logs", claim.Name)
	require.Contains(t, logs.Stdout, "guest is up", logs.Stderr)

	_, err = server.Client.ReleaseWorkspace(ctx, claim.Name)
	require.NoError(t, err)
	eventually(t, "the released one is gone, and the pool is full again", func() bool {
		all, err := engine.Client.ContainerList(ctx, client.ContainerListOptions{All: true})
		next := ready()
		return err == nil && len(all.Items) == 1 && len(next) == 1 && all.Items[0].Names[0] == "/"+next[0].Name
	})

	check := cli("provider", "check", "docker", "--preset", "containers/default")
	require.Zero(t, check.Status, check.Stdout+check.Stderr)
	require.NoError(t, server.Client.DeleteTemplate(context.WithoutCancel(ctx), "containers"))
	eventually(t, "nothing is left at the engine", func() bool {
		all, err := engine.Client.ContainerList(ctx, client.ContainerListOptions{All: true})
		return err == nil && len(all.Items) == 0
	})
}

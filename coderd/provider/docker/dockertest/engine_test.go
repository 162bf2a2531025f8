package dockertest_test

import (
	"testing"

	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
)

// An engine keeps its containers over a stop, and starts again after having been killed, though one was paused.
func TestStopAndStart(t *testing.T) {
	e := dockertest.Start(t)
	ctx := t.Context()
	made, err := e.Client.ContainerCreate(ctx, client.ContainerCreateOptions{
		Name: "kept", Image: e.Image(t),
	})
	require.NoError(t, err)
	_, err = e.Client.ContainerStart(ctx, made.ID, client.ContainerStartOptions{})
	require.NoError(t, err)
	for _, end := range []func(){e.Stop, e.Kill} {
		_, err := e.Client.ContainerPause(ctx, made.ID, client.ContainerPauseOptions{})
		require.NoError(t, err)
		end()
		_, err = e.Client.Ping(ctx, client.PingOptions{})
		require.Error(t, err)
		require.NoError(t, e.Start())
		is, err := e.Client.ContainerInspect(ctx, "kept", client.ContainerInspectOptions{})
		require.NoError(t, err)
		require.False(t, is.Container.State.Running)
		_, err = e.Client.ContainerStart(ctx, made.ID, client.ContainerStartOptions{})
		require.NoError(t, err)
	}
	name, gateway := e.Network(t)
	require.NotEmpty(t, name)
	require.True(t, gateway.IsPrivate())
}

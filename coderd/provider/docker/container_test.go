package docker_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
)

// All that a spec may say arrives at the engine, and the parameters, the spec's variables and the identity in the
// container. Deleting it takes the anonymous volumes along, and leaves what was only mounted.
func TestSpecIsCarriedOut(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	ctx := t.Context()
	network, _ := e.Network(t)
	second, _ := e.Network(t)
	cache := filepath.Join(e.Dir, "cache")
	require.NoError(t, os.MkdirAll(cache, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(cache, "kept"), []byte("kept\n"), 0o644))
	p := open(t, e, parse(t, fmt.Sprintf(`{"network": %q, "networks": [%q], "limits": {"cpus": 1.5, "memory": "64m"},
		"binds": [{"path": %q, "read_only": true}]}`, network, second, cache)))
	w := create(t, e, p, fmt.Sprintf(`, "command": ["listen", "8080"], "environment": {"A": "b", "IMAGE": "over"},
		"user": "guest", "working_dir": "/home/guest", "ports": [8080, "53/udp"], "networks": [%q, %q], "pids": 50,
		"memory": "32m", "readiness": {"tcp": 8080}, "stop_grace": "5s", "health": {"command": ["/bin/guest", "id"]},
		"volumes": [{"path": "/data"}, {"path": "/fast", "tmpfs": "1m"}, {"path": "/cache", "bind": %q, "read_only": true}]`,
		network, second, cache))
	w.becomesReady()

	is := w.inspect()
	require.Equal(t, "/"+w.Name, is.Name)
	require.Equal(t, int64(1.5e9), is.HostConfig.NanoCPUs, "what the configuration allows, where the spec says nothing")
	require.Equal(t, int64(32<<20), is.HostConfig.Memory)
	require.Equal(t, int64(50), *is.HostConfig.PidsLimit)
	require.Equal(t, 5, *is.Config.StopTimeout)
	require.Equal(t, "10m", is.HostConfig.LogConfig.Config["max-size"])
	require.Contains(t, is.NetworkSettings.Networks, network)
	require.Contains(t, is.NetworkSettings.Networks, second)
	require.Equal(t, "1000:1000 /home/guest\n", w.run("id"))
	require.Equal(t, "kept\n", w.run("cat", "/cache/kept"))
	env := w.run("env")
	for _, line := range []string{
		"PARAM_REGION_A=north", "A=b", "IMAGE=over", "PREWARM_WORKSPACE=" + w.Name, "PREWARM_TEMPLATE=guests",
	} {
		require.Contains(t, env, line+"\n")
	}

	require.Equal(t, []string{"tcp", "udp", "ip", "ip"}, addressTypes(w.Addresses))
	require.Equal(t, w.Addresses[1].Address, w.Environment["PREWARM_PORT_8080"], "53 comes before 8080")
	host, _, err := net.SplitHostPort(w.Environment["PREWARM_PORT_8080"])
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", host, "ports are published on loopback")
	conn, err := net.Dial("tcp", w.Environment["PREWARM_PORT_8080"])
	require.NoError(t, err)
	_, err = conn.Write([]byte("hello"))
	require.NoError(t, err)
	answer := make([]byte, 5)
	_, err = io.ReadFull(conn, answer)
	require.NoError(t, err)
	require.Equal(t, "hello", string(answer))
	require.NoError(t, conn.Close())

	var volume string
	for _, m := range is.Mounts {
		if m.Type == mount.TypeVolume {
			volume = m.Name
		}
	}
	require.NotEmpty(t, volume)
	require.NoError(t, p.Delete(ctx, w.ref()))
	_, err = e.Client.VolumeInspect(ctx, volume, client.VolumeInspectOptions{})
	require.ErrorContains(t, err, "no such volume")
	require.FileExists(t, filepath.Join(cache, "kept"))
}

func addressTypes(all []provider.Address) []string {
	types := make([]string, len(all))
	for i, a := range all {
		types[i] = a.Type
	}
	if len(types) > 1 && types[0] == "udp" { // in order of the ports
		types[0], types[1] = types[1], types[0]
	}
	return types
}

// A published port takes connections before the workspace does, and that does not count.
func TestReadiness(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	network, _ := e.Network(t)
	p := open(t, e, docker.Config{Network: network})
	for name, test := range map[string]struct{ fields, waiting string }{
		"tcp":     {`, "ports": [80], "readiness": {"tcp": 80}`, "waiting for port 80 to take connections"},
		"healthy": {`, "health": {"command": ["/bin/guest", "cat", "/tmp/no"], "interval": "1s"}, "readiness": {"healthy": true}`, "waiting for its health check"},
		"command": {`, "readiness": {"command": ["/bin/guest", "exit", "3"]}`, "waiting for /bin/guest, which ended with exit status 3"},
		"missing": {`, "readiness": {"healthy": true}`, "which neither the image nor the spec has"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := create(t, e, p, test.fields)
			state, err := p.Ready(t.Context(), w.ref())
			require.NoError(t, err)
			require.False(t, state.Ready || state.Failed)
			require.Contains(t, state.Detail, test.waiting)
		})
	}
	for name, fields := range map[string]string{
		"running":   "",
		"good":      `, "readiness": {"command": ["/bin/guest", "id"]}`,
		"listening": `, "command": ["listen", "80"], "readiness": {"tcp": 80}`,
		"health":    `, "health": {"command": ["/bin/guest", "id"], "interval": "1s"}, "readiness": {"healthy": true}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			create(t, e, p, fields).becomesReady()
		})
	}
	t.Run("ended", func(t *testing.T) {
		t.Parallel()
		w := create(t, e, p, `, "command": ["say", "out", "err:bad luck"]`)
		eventually(t, "it has failed", func() bool {
			state, err := p.Ready(t.Context(), w.ref())
			return err == nil && state.Failed && !state.Ready &&
				strings.HasPrefix(state.Detail, "its command ended with exit status 0; its last output:\n") &&
				strings.Contains(state.Detail, "bad luck")
		})
		is, err := p.Get(t.Context(), w.ref())
		require.NoError(t, err)
		require.Equal(t, provider.StatusStopped, is.Status)
	})
}

// What the engine refuses for good is not tried again, and leaves no container.
func TestCreateIsRefused(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	image := e.Image(t)
	p := open(t, e, docker.Config{Network: "none", Networks: []string{"no-such"}})
	for says, spec := range map[string]string{
		"says not to pull it":       `{"image": "prewarm.test/none:1", "pull": "never"}`,
		"/bin/no-such":              `{"image": "` + image + `", "pull": "never", "entrypoint": ["/bin/no-such"]}`,
		"unable to find user nobod": `{"image": "` + image + `", "pull": "never", "user": "nobody"}`,
		"no-such not found":         `{"image": "` + image + `", "pull": "never", "networks": ["no-such"]}`,
	} {
		req := request("refused", spec)
		_, err := p.Create(t.Context(), req)
		require.ErrorContains(t, err, says)
		require.NotErrorIs(t, err, provider.ErrNotFound, "it is not the workspace that is not found")
		require.True(t, provider.IsPermanent(err), "%v", err)
		ref := provider.Ref{Name: req.Name, WorkspaceID: req.Tags.WorkspaceID}
		require.NoError(t, p.Delete(t.Context(), ref))
		_, err = p.Get(t.Context(), ref)
		require.ErrorIs(t, err, provider.ErrNotFound)
	}
}

// A workspace stays the same one when somebody renames its container; a container that is not tagged is never touched,
// whatever its name; and a second container with a workspace's labels is deleted by its id without the first.
func TestBehindTheServersBack(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	ctx := t.Context()
	p := open(t, e, docker.Config{Network: "none"})
	w := create(t, e, p, "")
	_, err := e.Client.ContainerRename(ctx, w.ProviderID, client.ContainerRenameOptions{NewName: "mine-" + w.Name})
	require.NoError(t, err)
	for _, ref := range []provider.Ref{{Name: w.Name}, {ProviderID: w.ProviderID}, w.ref()} {
		is, err := p.Get(ctx, ref)
		require.NoError(t, err)
		require.Equal(t, w.Name, is.Name)
		require.Equal(t, provider.StatusRunning, is.Status)
	}
	again, err := p.Create(ctx, w.req)
	require.NoError(t, err)
	require.Equal(t, w.ProviderID, again.ProviderID)

	twin := w.inspect()
	made, err := e.Client.ContainerCreate(ctx, client.ContainerCreateOptions{Config: twin.Config, Name: "twin-" + w.Name})
	require.NoError(t, err)
	list, err := p.List(ctx, w.Tags.Installation)
	require.NoError(t, err)
	require.Len(t, list, 2)
	for range 2 { // again, when it is gone: the first is not meant then either
		require.NoError(t, p.Delete(ctx, provider.Ref{Name: w.Name, ProviderID: made.ID, WorkspaceID: w.Tags.WorkspaceID}))
	}
	is, err := p.Get(ctx, w.ref())
	require.NoError(t, err)
	require.Equal(t, provider.StatusRunning, is.Status)

	foreign := request("foreign", string(w.req.Spec))
	made, err = e.Client.ContainerCreate(ctx, client.ContainerCreateOptions{Image: e.Image(t), Name: foreign.Name})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, _ = e.Client.ContainerRemove(ctx, made.ID, client.ContainerRemoveOptions{Force: true})
	})
	_, err = p.Create(ctx, foreign)
	require.ErrorIs(t, err, provider.ErrConflict)
	require.NoError(t, p.Delete(ctx, provider.Ref{Name: foreign.Name}))
	require.NoError(t, p.Delete(ctx, provider.Ref{ProviderID: made.ID}))
	_, err = e.Client.ContainerInspect(ctx, made.ID, client.ContainerInspectOptions{})
	require.NoError(t, err, "it was not ours")
}

// After a reset nothing is left of before, and the id of before leads to what came after, for whoever did not learn it.
func TestReset(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	p := open(t, e, docker.Config{Network: "none"})
	w := create(t, e, p, `, "volumes": [{"path": "/data"}]`)
	w.run("write", "/tmp/mine", "x")
	w.run("write", "/data/mine", "x")
	next := w.req
	next.Tags.Incarnation = 2
	reset, err := p.Reset(t.Context(), next)
	require.NoError(t, err)
	require.NotEqual(t, w.ProviderID, reset.ProviderID)
	is, err := p.Get(t.Context(), w.ref())
	require.NoError(t, err)
	require.Equal(t, reset, is)
	for _, path := range []string{"/tmp/mine", "/data/mine"} {
		status, err := p.Exec(t.Context(), w.ref(), provider.ExecRequest{Command: []string{"/bin/guest", "cat", path}})
		require.NoError(t, err)
		require.Equal(t, 1, status, "%s is still there", path)
	}
	require.NoError(t, p.Delete(t.Context(), w.ref()))
	_, err = p.Get(t.Context(), provider.Ref{Name: w.Name})
	require.ErrorIs(t, err, provider.ErrNotFound)
}

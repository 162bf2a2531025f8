package docker_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
	"github.com/prewarm-dev/prewarm/coderd/provider/specs"
)

// An image is pulled once for all who ask for it at once, with the credentials of a file, and the pull goes on when who
// began it has given up.
func TestPullMissing(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	registry := dockertest.NewRegistry(t, "robot", "s3cret")
	registry.Hold = make(chan struct{})
	file := filepath.Join(t.TempDir(), "config.json")
	login := func(password string) {
		content, err := json.Marshal(map[string]any{"auths": map[string]any{
			registry.Host: map[string]string{"auth": base64.StdEncoding.EncodeToString([]byte("robot:" + password))},
		}})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(file, content, 0o600))
	}
	p := open(t, e, docker.Config{Network: "none", RegistryAuthFile: file})
	spec := fmt.Sprintf(`{"image": "%s/team/guest:1"}`, registry.Host)

	login("wrong")
	_, err := p.Create(t.Context(), request("pulled", spec))
	require.True(t, provider.IsPermanent(err), "%v", err)
	require.NotContains(t, err.Error(), "wrong", "credentials are in no message")

	login("s3cret")
	gaveUp, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = p.Create(gaveUp, request("pulled", spec))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Zero(t, registry.Pulls.Load())
	close(registry.Hold)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { createAs(t, e, p, request("pulled", spec)) })
	}
	all.Wait()
	require.Equal(t, int64(1), registry.Pulls.Load())

	_, err = p.Create(t.Context(), request("pulled", fmt.Sprintf(`{"image": "%s/team/guest:2"}`, registry.Host)))
	require.True(t, provider.IsPermanent(err), "an image that does not exist: %v", err)
	require.NotErrorIs(t, err, provider.ErrNotFound)
}

// `pull: always` asks the registry at the first create and then every so often, not at each; and a registry that is away
// is no reason not to use the image that is here.
func TestPullAlways(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	registry := dockertest.NewRegistry(t, "", "")
	clock := quartz.NewMock(t)
	p, err := docker.New(t.Context(), docker.Options{
		Config: docker.Config{Host: e.Host, Network: "none", PullEvery: specs.Duration(time.Hour)}, Clock: clock,
	})
	require.NoError(t, err)
	spec := fmt.Sprintf(`{"image": "%s/guest:1", "pull": "always"}`, registry.Host)
	for range 2 {
		createAs(t, e, p, request("always", spec))
	}
	require.Equal(t, int64(1), registry.Pulls.Load())
	clock.Advance(61 * time.Minute)
	createAs(t, e, p, request("always", spec))
	require.Equal(t, int64(2), registry.Pulls.Load())
	clock.Advance(61 * time.Minute)
	away := dockertest.NewRegistry(t, "", "")
	spec = fmt.Sprintf(`{"image": "%s/guest:1", "pull": "always"}`, away.Host)
	createAs(t, e, p, request("always", spec))
	away.Close()
	clock.Advance(61 * time.Minute)
	createAs(t, e, p, request("always", spec))
}

// What the configuration lists is there before anybody asks.
func TestPrepull(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	registry := dockertest.NewRegistry(t, "", "")
	image := registry.Host + "/early:1"
	p := open(t, e, docker.Config{Network: "none", Prepull: []string{image}})
	eventually(t, "the image is there", func() bool {
		_, err := e.Client.ImageInspect(t.Context(), image)
		return err == nil
	})
	createAs(t, e, p, request("early", fmt.Sprintf(`{"image": %q, "pull": "never"}`, image))).becomesReady()
}

package docker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
)

// A member of a workspace that can write a directory of the machine would replace a directory in it by a link to the
// machine's root, and claim a workspace that mounts that one. So none can write one, and no link is followed.
func TestSources(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	shared := filepath.Join(e.Dir, "shared")
	require.NoError(t, os.MkdirAll(filepath.Join(shared, "inner"), 0o755))
	secret := filepath.Join(e.Dir, "secret")
	require.NoError(t, os.WriteFile(secret, []byte("of the machine\n"), 0o600))
	readers := open(t, e, parse(t, fmt.Sprintf(`{"network": "none", "binds": [{"path": %q}, {"path": "/"}]}`, shared)))
	p := readers
	volume := func(fields string) string {
		return `, "command": ["serve"], "volumes": [{"path": "/at", ` + fields + `}]`
	}
	bind := func(path string) string { return volume(fmt.Sprintf(`"bind": %q, "read_only": true`, path)) }
	refused := func(fields, why string) {
		t.Helper()
		spec := `{"image": "` + e.Image(t) + `", "pull": "never"` + fields + `}`
		problems := p.Validate(json.RawMessage(spec), nil)
		require.Len(t, problems, 1, fields)
		require.Equal(t, "volumes[0].bind", problems[0].Path)
		require.Contains(t, problems[0].Message, why)
		_, err := p.Create(t.Context(), request("guest", spec))
		require.ErrorContains(t, err, why)
	}
	refused(volume(fmt.Sprintf(`"bind": %q`, shared)), "with `read_only: true` only")
	// What is claimed of such a version, which an older release made, raises an alarm by the same words (coderd/alerts).
	all := provider.NewRegistry(map[string]provider.Factory{
		"docker": func(json.RawMessage) (provider.Provider, error) { return p, nil },
	}, func(context.Context) bool { return false })
	all.Update([]provider.Row{{Name: "docker", Kind: "docker"}})
	judged, why := all.Refuses("docker", p.Site(), json.RawMessage(
		fmt.Sprintf(`{"image": "go", "volumes": [{"path": "/at", "bind": %q}]}`, shared)), nil)
	require.True(t, judged)
	require.ErrorContains(t, why, "with `read_only: true` only")
	for _, place := range []string{"/", "/proc/1/root", "/sys", "/dev/shm", "/var/lib/docker/volumes", "/var/lib", filepath.Dir(e.Host[len("unix://"):])} {
		refused(bind(place), "which no workspace may reach")
	}
	refused(bind(filepath.Join(shared, "nothing")), "is not there")
	p, err := docker.New(t.Context(), docker.Options{
		Config: parse(t, fmt.Sprintf(`{"host": %q, "binds": [{"path": %q}]}`, e.Host, e.Dir)), Private: []string{shared}, // the data directory
	})
	require.NoError(t, err)
	for _, place := range []string{shared, filepath.Join(shared, "inner"), e.Dir} {
		refused(bind(place), "which no workspace may reach")
	}
	p = readers

	first := create(t, e, p, bind(filepath.Join(shared, "inner")))
	first.becomesReady()

	// Somebody else who may write above a source puts a link there: it is followed neither by a create, nor by the start
	// of what was made before.
	require.NoError(t, p.Stop(t.Context(), first.ref()))
	require.NoError(t, os.Remove(filepath.Join(shared, "inner")))
	require.NoError(t, os.Symlink("/", filepath.Join(shared, "inner")))
	refused(bind(filepath.Join(shared, "inner")), "is reached through a symbolic link: write /")
	require.ErrorContains(t, p.Start(t.Context(), first.ref()), "is reached through a symbolic link")
}

// What workspaces of a template share is a volume of theirs alone, which goes with none of them.
func TestSources_sharedVolume(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	p := open(t, e, parse(t, `{"network": "none"}`))
	fields := `"command": ["serve"], "volumes": [{"path": "/at", "volume": "cache"}]`
	spec := `{"image": "` + e.Image(t) + `", "pull": "never", ` + fields + `}`
	installation := uuid.New()
	of := func(template string) *workspace {
		req := request("guest", spec)
		req.Template, req.Organization, req.Tags.Installation = template, "acme", installation
		w := createAs(t, e, p, req)
		w.becomesReady()
		return w
	}
	first := of("one")
	first.run("write", "/at/file", "shared")
	// A link in it leads nowhere but within the container that follows it.
	first.run("link", "/", "/at/link")
	require.NoError(t, p.Delete(t.Context(), first.ref()))
	second := of("one")
	require.Equal(t, "shared\n", second.run("cat", "/at/file"))
	other := of("two")
	for _, m := range other.inspect().Mounts {
		require.NotEqual(t, m.Name, second.inspect().Mounts[0].Name)
	}
}

package docker_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker"
	"github.com/prewarm-dev/prewarm/coderd/provider/docker/dockertest"
)

// While the engine is away every call fails, says so, and may be tried again: nothing is taken for gone. When it is back,
// the same provider goes on, and finds what the engine kept.
func TestEngineGoesAndComes(t *testing.T) {
	t.Parallel()
	e := dockertest.Start(t)
	p := open(t, e, docker.Config{Network: "none"})
	w := create(t, e, p, "")
	for _, end := range []func(){e.Stop, e.Kill} {
		end()
		calls := map[string]error{}
		_, calls["create"] = p.Create(t.Context(), request("never", `{"image": "a"}`))
		_, calls["get"] = p.Get(t.Context(), w.ref())
		_, calls["list"] = p.List(t.Context(), w.Tags.Installation)
		_, calls["ready"] = p.Ready(t.Context(), w.ref())
		_, calls["logs"] = p.Logs(t.Context(), w.ref(), false)
		_, calls["exec"] = p.Exec(t.Context(), w.ref(), provider.ExecRequest{Command: []string{"/bin/guest"}})
		calls["stop"], calls["start"], calls["delete"] = p.Stop(t.Context(), w.ref()), p.Start(t.Context(), w.ref()), p.Delete(t.Context(), w.ref())
		for name, err := range calls {
			require.ErrorContains(t, err, "does not answer", name)
			require.NotErrorIs(t, err, provider.ErrNotFound, name)
			require.False(t, provider.IsPermanent(err), name)
		}
		_, err := docker.New(t.Context(), docker.Options{Config: docker.Config{Host: e.Host}})
		require.ErrorContains(t, err, "does not answer")

		require.NoError(t, e.Start())
		is, err := p.Get(t.Context(), w.ref())
		require.NoError(t, err)
		require.Equal(t, provider.StatusStopped, is.Status)
		require.NoError(t, p.Start(t.Context(), w.ref()))
		w.becomesReady()
		require.Equal(t, p.Site(), open(t, e, docker.Config{}).Site(), "an engine stays the same one")
	}
	other := dockertest.Shared(t)
	require.NotEqual(t, p.Site(), open(t, other, docker.Config{}).Site())
}

// Two installations on one engine see nothing of each other.
func TestInstallationsAreApart(t *testing.T) {
	t.Parallel()
	e := dockertest.Shared(t)
	p := open(t, e, docker.Config{Network: "none"})
	mine, theirs := create(t, e, p, ""), create(t, e, p, "")
	list, err := p.List(t.Context(), mine.Tags.Installation)
	require.NoError(t, err)
	listed := mine.Instance
	listed.Environment = nil
	require.Equal(t, []provider.Instance{listed}, list)
	taken := mine.req
	taken.Tags = provider.Tags{Installation: theirs.Tags.Installation, WorkspaceID: uuid.New(), Incarnation: 1}
	taken.Spec = mine.req.Spec
	_, err = p.Create(t.Context(), taken)
	require.ErrorIs(t, err, provider.ErrConflict)
	_, err = p.Reset(t.Context(), taken)
	require.ErrorIs(t, err, provider.ErrConflict)
	require.NoError(t, p.Delete(t.Context(), provider.Ref{Name: taken.Name, WorkspaceID: taken.Tags.WorkspaceID}))
	is, err := p.Get(t.Context(), mine.ref())
	require.NoError(t, err)
	require.Equal(t, provider.StatusRunning, is.Status)
}

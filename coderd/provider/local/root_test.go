package local_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/local"
)

func TestRootIsPrivate(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	require.NoError(t, os.Mkdir(root, 0o755))
	open(t, root)
	info, err := os.Stat(root)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

func TestDirectoryOfSomethingElseIsRefused(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	require.NoError(t, os.Chmod(root, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(root, "thesis.txt"), nil, 0o600))
	_, err := local.New(local.Options{Root: root})
	require.ErrorContains(t, err, "holds something else")
	info, err := os.Stat(root)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o755), info.Mode().Perm())
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Len(t, entries, 1)
}

func TestSite(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	sites := make([]string, 10)
	var all sync.WaitGroup
	for n := range sites {
		all.Go(func() {
			p, err := local.New(local.Options{Root: root})
			if assert.NoError(t, err) {
				sites[n] = p.Site()
			}
		})
	}
	all.Wait()
	require.NotEmpty(t, sites[0])
	for _, s := range sites {
		assert.Equal(t, sites[0], s)
	}
	assert.NotEqual(t, sites[0], open(t, newRoot(t)).Site())
	requireEmpty(t, root)
}

// What is in the root and not tagged as ours is never listed, never taken for a workspace, and never touched.
func TestUntaggedIsLeftAlone(t *testing.T) {
	t.Parallel()
	root := newRoot(t)
	p := open(t, root)
	outside := t.TempDir()
	keep := []string{filepath.Join(root, "notes", "keep"), filepath.Join(outside, "keep"), filepath.Join(root, "plain")}
	require.NoError(t, os.Mkdir(filepath.Join(root, "notes"), 0o700))
	require.NoError(t, os.Symlink(outside, filepath.Join(root, "linked")))
	for _, path := range keep {
		require.NoError(t, os.WriteFile(path, nil, 0o600))
	}
	// A copy of a workspace is not that workspace.
	original := create(t, p, "original", `{"command": ["sleep", "1000"]}`)
	copied := filepath.Join(root, "copied")
	require.NoError(t, os.Mkdir(copied, 0o700))
	content, err := os.ReadFile(filepath.Join(root, "original", "workspace.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(copied, "workspace.json"), content, 0o600))

	all, err := p.List(t.Context(), installation)
	require.NoError(t, err)
	require.Len(t, all, 1)
	for _, name := range []string{"notes", "linked", "plain", "copied"} {
		ref := provider.Ref{Name: name}
		_, err = p.Get(t.Context(), ref)
		require.ErrorIs(t, err, provider.ErrNotFound, name)
		_, err = p.Create(t.Context(), request(name, `{"command": ["sleep", "1000"]}`))
		require.ErrorIs(t, err, provider.ErrConflict, name)
		require.NoError(t, p.Delete(t.Context(), ref))
	}
	for _, path := range append(keep, filepath.Join(copied, "workspace.json")) {
		assert.FileExists(t, path)
	}
	still, err := p.Get(t.Context(), refOf(original))
	require.NoError(t, err)
	assert.Equal(t, provider.StatusRunning, still.Status)
}

func TestDeleteFollowsNoLink(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "keep"), nil, 0o600))
	i := create(t, p, "linking", `{"command": ["sleep", "1000"]}`)
	require.NoError(t, os.Symlink(outside, home(i)+"/link"))
	require.NoError(t, os.Mkdir(home(i)+"/locked", 0o700))
	require.NoError(t, os.WriteFile(home(i)+"/locked/file", nil, 0o400))
	require.NoError(t, os.Chmod(home(i)+"/locked", 0o500))
	require.NoError(t, p.Delete(t.Context(), refOf(i)))
	assert.FileExists(t, filepath.Join(outside, "keep"))
	assert.NoDirExists(t, home(i))
}

func TestRefusesPaths(t *testing.T) {
	t.Parallel()
	p := open(t, newRoot(t))
	for _, name := range []string{"../root", "a/b", "..", ""} {
		for _, ref := range []provider.Ref{{Name: name}, {Name: "good", ProviderID: name + "/"}} {
			_, err := p.Get(t.Context(), ref)
			require.ErrorContains(t, err, "is not lower-case letters", "%+v", ref)
			require.Error(t, p.Delete(t.Context(), ref))
			_, err = p.Logs(t.Context(), ref, false)
			require.Error(t, err)
			_, err = p.Exec(t.Context(), ref, provider.ExecRequest{Command: []string{"true"}})
			require.Error(t, err)
		}
	}
	_, err := p.List(t.Context(), uuid.New())
	require.NoError(t, err)
}

package tree_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/tree"
)

// What a process that was killed left is removed by the next write to the directory, and neither what is being written, nor what is
// young, nor what only looks like it.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tree.Forget()
	old := time.Now().Add(-time.Hour)
	leave := func(name string, age time.Time) string {
		path := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(path, []byte("x"), 0o600))
		require.NoError(t, os.Chtimes(path, age, age))
		return path
	}
	left := leave(".prewarm-"+strings.Repeat("A", 26), old)
	young := leave(".prewarm-"+strings.Repeat("B", 26), time.Now())
	theirs := leave(".prewarm-notes", old)
	written := leave(".prewarm-"+strings.Repeat("C", 26), old)
	link := filepath.Join(dir, ".prewarm-"+strings.Repeat("D", 26))
	require.NoError(t, os.Symlink(theirs, link))
	f, err := os.Open(written) // another process, as locks are of open files
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX))

	require.NoError(t, tree.Write(root(t, dir), "new", strings.NewReader("new"), tree.Options{}))
	require.NoFileExists(t, left)
	for _, path := range []string{young, theirs, written, link, filepath.Join(dir, "new")} {
		require.FileExists(t, path)
	}

	require.NoError(t, os.Chtimes(young, old, old))
	require.NoError(t, tree.Write(root(t, dir), "new", strings.NewReader("newer"), tree.Options{}))
	require.NoFileExists(t, young, "it was young when the directory was looked through")
}

type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

// A file that is being written has its lock.
func TestLeftovers_areLocked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	looked := false
	err := tree.Write(root(t, dir), "new", reader(func([]byte) (int, error) {
		found, err := filepath.Glob(filepath.Join(dir, ".prewarm-*"))
		require.NoError(t, err)
		require.Len(t, found, 1)
		f, err := os.Open(found[0])
		require.NoError(t, err)
		defer f.Close()
		require.ErrorIs(t, syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB), syscall.EWOULDBLOCK)
		looked = true
		return 0, os.ErrDeadlineExceeded
	}), tree.Options{})
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.True(t, looked)
}

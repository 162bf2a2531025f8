package tree_test

import (
	"archive/tar"
	"bytes"
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/tree"
)

func root(t *testing.T, dir string) *os.Root {
	t.Helper()
	r, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// names are all paths below a directory, links with what they lead to, and files with their content.
func names(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		require.NoError(t, err)
		name, _ := filepath.Rel(dir, path)
		info, err := e.Info()
		require.NoError(t, err)
		switch e.Type() { //nolint:exhaustive // there are no others
		case fs.ModeDir:
			found[name] = info.Mode().String()
		case fs.ModeSymlink:
			found[name], err = os.Readlink(path)
		case 0:
			var content []byte
			content, err = os.ReadFile(path)
			found[name] = info.Mode().String() + " " + info.ModTime().UTC().Format(time.DateTime) + " " + string(content)
		}
		require.NoError(t, err)
		return nil
	}))
	return found
}

func write(t *testing.T, path, content string, mode fs.FileMode) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	require.NoError(t, os.Chmod(path, mode))
}

// What goes through an archive is the same on the other side, over what was there.
func TestArchive(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	long := strings.Repeat("a long name of a directory/", 9)
	write(t, filepath.Join(from, "run.sh"), "#!/bin/sh\n", 0o755)
	write(t, filepath.Join(from, "secret"), "s", 0o600)
	write(t, filepath.Join(from, "empty"), "", 0o644)
	write(t, filepath.Join(from, long, "deep é"), strings.Repeat("x", 10_000), 0o640)
	require.NoError(t, os.Symlink("run.sh", filepath.Join(from, "link")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(from, "away")))
	require.NoError(t, os.Mkdir(filepath.Join(from, "hollow"), 0o750))
	require.NoError(t, syscall.Mkfifo(filepath.Join(from, "pipe"), 0o600)) // which nothing must wait at
	require.NoError(t, os.Chtimes(filepath.Join(from, "secret"), time.Time{}, time.Unix(1e9, 0)))
	write(t, filepath.Join(to, "run.sh"), "old and longer than the new one", 0o600)
	require.NoError(t, os.Symlink("/dev/null", filepath.Join(to, "secret")))

	var b bytes.Buffer
	require.NoError(t, tree.Archive(t.Context(), &b, root(t, from), tree.What{}))
	require.NoError(t, tree.Extract(t.Context(), root(t, to), &b))
	want := names(t, from)
	delete(want, "pipe")
	got := names(t, to)
	want["."] = got["."]
	require.Equal(t, want, got)

	err := tree.Archive(t.Context(), io.Discard, root(t, from), tree.What{Whole: true})
	require.ErrorIs(t, err, tree.ErrNotRegular)
	require.ErrorContains(t, err, "pipe: a pipe, socket or device, which is not copied: remove it first")
}

func archive(t *testing.T, headers ...tar.Header) io.Reader {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size = 4
		}
		h.Mode = 0o6755
		require.NoError(t, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			_, err := io.WriteString(w, "evil")
			require.NoError(t, err)
		}
	}
	require.NoError(t, w.Close())
	return &b
}

// Nothing of an archive leaves the directory, and what a link there leads to is left as it is.
func TestExtract_staysInside(t *testing.T) {
	t.Parallel()
	file := func(name string) tar.Header { return tar.Header{Typeflag: tar.TypeReg, Name: name} }
	link := func(name, target string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target}
	}
	for name, entries := range map[string][]tar.Header{
		"absolute":               {file("/outside")},
		"absolute, to outside":   {file("OUTSIDE/victim")},
		"above":                  {file("../victim")},
		"above from below":       {file("a/../../victim")},
		"itself as a file":       {file(".")},
		"through a link":         {link("l", "OUTSIDE"), file("l/victim")},
		"through a link above":   {link("l", ".."), file("l/outside/victim")},
		"through two links":      {link("d", "e"), link("e", ".."), file("d/outside/victim")},
		"link through a link":    {link("l", "OUTSIDE"), link("l/victim", "x")},
		"directory through one":  {link("l", "OUTSIDE"), {Typeflag: tar.TypeDir, Name: "l/d/"}},
		"mode through one":       {link("l", "OUTSIDE"), {Typeflag: tar.TypeDir, Name: "l"}},
		"hard link to above":     {{Typeflag: tar.TypeLink, Name: "h", Linkname: "../outside/victim"}},
		"hard link to absolute":  {{Typeflag: tar.TypeLink, Name: "h", Linkname: "OUTSIDE/victim"}},
		"hard link through one":  {link("l", "OUTSIDE"), {Typeflag: tar.TypeLink, Name: "h", Linkname: "l/victim"}},
		"device":                 {{Typeflag: tar.TypeChar, Name: "null", Devmajor: 1, Devminor: 3}},
		"pipe":                   {{Typeflag: tar.TypeFifo, Name: "pipe"}},
		"file over a directory":  {{Typeflag: tar.TypeDir, Name: "d"}, file("d")},
		"directory over a file":  {file("f"), {Typeflag: tar.TypeDir, Name: "f"}},
		"above, as a directory":  {{Typeflag: tar.TypeDir, Name: "../d"}},
		"above, as a link":       {link("../l", "x")},
		"existing link is a dir": {file("there/victim")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			parent := t.TempDir()
			outside, inside := filepath.Join(parent, "outside"), filepath.Join(parent, "inside")
			write(t, filepath.Join(outside, "victim"), "well", 0o644)
			require.NoError(t, os.Mkdir(inside, 0o755))
			require.NoError(t, os.Symlink(outside, filepath.Join(inside, "there")))
			before := names(t, outside)
			for i := range entries {
				entries[i].Name = strings.ReplaceAll(entries[i].Name, "OUTSIDE", outside)
				entries[i].Linkname = strings.ReplaceAll(entries[i].Linkname, "OUTSIDE", outside)
			}
			require.Error(t, tree.Extract(t.Context(), root(t, inside), archive(t, entries...)))
			require.Equal(t, before, names(t, outside))
			list, err := os.ReadDir(parent)
			require.NoError(t, err)
			require.Len(t, list, 2)
		})
	}
	// A link as such is content like any other: what it was in the place of is gone, and what it led to is not.
	dir := t.TempDir()
	write(t, filepath.Join(dir, "victim"), "well", 0o644)
	require.NoError(t, os.Symlink("victim", filepath.Join(dir, "l")))
	require.NoError(t, tree.Extract(t.Context(), root(t, dir), archive(t, file("l"),
		tar.Header{Typeflag: tar.TypeLink, Name: "h", Linkname: "l"}, tar.Header{Typeflag: tar.TypeLink, Name: "h", Linkname: "l"}, link("h2", "/etc"), link("h2", "/usr"))))
	got := names(t, dir)
	require.Contains(t, got["victim"], "well")
	require.Contains(t, got["l"], "-rwxr-xr-x", "without the set-user-id bits")
	require.Contains(t, got["h"], "evil")
	require.Equal(t, "/usr", got["h2"])
	require.Len(t, got, 5)
}

// A reader of a file that is replaced all the time sees one content or the other.
func TestWrite_oneStep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := root(t, dir)
	size := 1 << 20
	require.NoError(t, tree.Write(r, "f", strings.NewReader(strings.Repeat("0", size)), tree.Options{}))
	done := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			content, err := os.ReadFile(filepath.Join(dir, "f"))
			if err != nil || len(content) != size || strings.Trim(string(content), string(content[:1])) != "" {
				t.Errorf("read %d bytes, %v", len(content), err)
				return
			}
		}
	})
	for i := range 20 {
		require.NoError(t, tree.Write(r, "f", strings.NewReader(strings.Repeat(string(rune('a'+i)), size)), tree.Options{Sync: i == 0}))
	}
	close(done)
	reading.Wait()
}

// What cannot be read to its end changes nothing, and leaves nothing.
func TestWrite_cut(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f"), "old", 0o640)
	err := tree.Write(root(t, dir), "f", io.MultiReader(strings.NewReader("new"), iotest.ErrReader(io.ErrUnexpectedEOF)), tree.Options{})
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	got := names(t, dir)
	require.Len(t, got, 2)
	require.Contains(t, got["f"], "old")

	require.NoError(t, tree.Write(root(t, dir), "f", strings.NewReader("new"), tree.Options{}))
	require.Contains(t, names(t, dir)["f"], "-rw-r-----", "the mode that it had")
	require.NoError(t, tree.Write(root(t, dir), "f", strings.NewReader("new"), tree.Options{Mode: new(fs.FileMode(0o755))}))
	require.Contains(t, names(t, dir)["f"], "-rwxr-xr-x")
	require.NoError(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	require.ErrorIs(t, tree.Write(root(t, dir), "pipe", strings.NewReader("new"), tree.Options{}), tree.ErrNotRegular)
	require.ErrorIs(t, tree.Write(root(t, dir), ".", strings.NewReader("new"), tree.Options{}), syscall.EISDIR)
}

// Whatever is put in the place of a directory while it is read: nothing from outside comes along.
func TestArchive_race(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	inside, outside := filepath.Join(parent, "inside"), filepath.Join(parent, "outside")
	write(t, filepath.Join(outside, "f"), "stolen", 0o600)
	write(t, filepath.Join(inside, "d", "f"), "mine", 0o600)
	done := make(chan struct{})
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			_ = os.Rename(filepath.Join(inside, "d"), filepath.Join(parent, "kept"))
			_ = os.Symlink(outside, filepath.Join(inside, "d"))
			_ = os.Remove(filepath.Join(inside, "d"))
			_ = os.Rename(filepath.Join(parent, "kept"), filepath.Join(inside, "d"))
		}
	})
	whole := 0
	for range 2000 {
		var b bytes.Buffer
		_ = tree.Archive(t.Context(), &b, root(t, inside), tree.What{})
		require.NotContains(t, b.String(), "stolen")
		if strings.Contains(b.String(), "mine") {
			whole++
		}
	}
	close(done)
	swapping.Wait()
	require.Positive(t, whole)
}

// An archive that had to end early says why to who extracts it.
func TestArchive_error(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	for _, name := range []string{"a", "b", "c"} {
		write(t, filepath.Join(from, name), "x", 0o600)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var b bytes.Buffer
	err := tree.Archive(ctx, writer(func(p []byte) (int, error) { cancel(); return b.Write(p) }), root(t, from), tree.What{})
	require.ErrorIs(t, err, context.Canceled)
	to := t.TempDir()
	require.ErrorContains(t, tree.Extract(t.Context(), root(t, to), &b), "the archive ends early: context canceled")
	require.Len(t, names(t, to), 2)
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

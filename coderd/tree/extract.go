package tree

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/xerrors"
)

var (
	errOutside = errors.New("leaves the directory")
	errKind    = errors.New("neither a file, nor a directory, nor a link")
)

// Extract writes the entries of a tar archive into root, each over what has its name. Entries that leave root are refused:
// by their name, as hard links, or through a symbolic link. Modes are kept without the set-user-id bits, times of files too,
// and owners not. After an error what came before it is written.
func Extract(ctx context.Context, root *os.Root, r io.Reader) error {
	archive := tar.NewReader(r)
	for {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		h, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return xerrors.Errorf("read archive: %w", err)
		case h.PAXRecords[errorRecord] != "":
			return xerrors.Errorf("the archive ends early: %s", h.PAXRecords[errorRecord])
		case h.Typeflag == tar.TypeXGlobalHeader:
			continue
		}
		if err := extract(root, h, archive); err != nil {
			return err
		}
	}
}

func extract(root *os.Root, h *tar.Header, content io.Reader) error {
	name := path.Clean(h.Name)
	if !filepath.IsLocal(name) {
		return named(h.Name, errOutside)
	}
	if h.Typeflag == tar.TypeDir {
		return directory(root, name, h.FileInfo().Mode())
	}
	write := func() error { return link(root, name, h) }
	if h.Typeflag == tar.TypeReg {
		write = func() error {
			return Write(root, name, content, Options{Mode: new(h.FileInfo().Mode().Perm()), ModTime: h.ModTime})
		}
	}
	err := write()
	if errors.Is(err, fs.ErrNotExist) { // its directory has no entry of its own; nothing of the content is read yet
		if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
			return named(path.Dir(name), err)
		}
		err = write()
	}
	return err
}

// directory leaves its owner the right to write into it: what follows is written there.
func directory(root *os.Root, name string, mode fs.FileMode) error {
	err := root.MkdirAll(name, 0o777)
	if err == nil && name != "." {
		err = root.Chmod(name, mode.Perm()|0o700)
	}
	return named(name, err)
}

// Symlink makes a symbolic link, in the place of a file or a link that is there.
func Symlink(root *os.Root, name, target string) error {
	return link(root, name, &tar.Header{Typeflag: tar.TypeSymlink, Linkname: target})
}

func link(root *os.Root, name string, h *tar.Header) error {
	put := root.Symlink
	target := h.Linkname
	switch {
	case h.Typeflag == tar.TypeLink:
		put, target = root.Link, path.Clean(target)
		if !filepath.IsLocal(target) {
			return named(h.Name, errOutside)
		}
	case h.Typeflag != tar.TypeSymlink:
		return named(h.Name, errKind)
	}
	return replace(root, name, func(temp string) error { return named(name, put(target, temp)) }, false)
}

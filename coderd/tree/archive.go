package tree

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/xerrors"
)

const (
	batch = 256 // names of a directory that are held at once
	// errorRecord is the record of a global header that says why an archive ends early: its other side sees only that it does.
	errorRecord = "PREWARM.error"
)

var (
	// errChanged: something else was put in its place.
	errChanged = errors.New("changed while it was read")
	errSpecial = xerrors.Errorf("a pipe, socket or device, which is not copied: remove it first: %w", ErrNotRegular)
)

// What is an archive of.
type What struct {
	Except fs.FileInfo // a directory that is left out; nil: none
	Whole  bool        // pipes, sockets and devices, which an archive has not, are an error, and not left out
}

// Archive writes the files, directories and symbolic links in root as a tar archive. What is gone when its turn comes is no
// error. After an error the archive has no end; Extract returns that error.
func Archive(ctx context.Context, w io.Writer, root *os.Root, of What) error {
	a := archiver{tar.NewWriter(w), of}
	err := a.directory(ctx, root, "")
	if err == nil {
		err = a.Close()
	} else {
		_ = a.WriteHeader(&tar.Header{Typeflag: tar.TypeXGlobalHeader, PAXRecords: map[string]string{
			errorRecord: strings.ToValidUTF8(err.Error(), "?"),
		}})
	}
	if err != nil {
		return xerrors.Errorf("write archive: %w", err)
	}
	return nil
}

type archiver struct {
	*tar.Writer
	of What
}

func (a archiver) directory(ctx context.Context, dir *os.Root, prefix string) error {
	list, err := dir.Open(".")
	if err != nil {
		return named(prefix, err)
	}
	defer list.Close()
	for {
		entries, err := list.ReadDir(batch)
		for _, e := range entries {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err := a.entry(ctx, dir, prefix, e.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return named(prefix, err)
		}
	}
}

func (a archiver) entry(ctx context.Context, dir *os.Root, prefix, name string) error {
	info, err := dir.Lstat(name)
	if err != nil {
		return named(prefix+name, err)
	}
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		target, err := dir.Readlink(name)
		if err != nil {
			return named(prefix+name, err)
		}
		return a.header(info, prefix+name, target)
	case fs.ModeDir:
		if a.of.Except != nil && os.SameFile(info, a.of.Except) {
			return nil
		}
		sub, err := Sub(dir, name)
		if err != nil {
			return named(prefix+name, err)
		}
		defer sub.Close()
		if err := a.header(info, prefix+name+"/", ""); err != nil {
			return err
		}
		return a.directory(ctx, sub, prefix+name+"/")
	case 0:
		f, is, err := Open(dir.OpenFile, name)
		if err != nil {
			return named(prefix+name, err)
		}
		defer f.Close()
		if !os.SameFile(is, info) {
			return named(prefix+name, errChanged)
		}
		if err := a.header(is, prefix+name, ""); err != nil {
			return err
		}
		if _, err := io.CopyN(a, f, is.Size()); err != nil {
			return xerrors.Errorf("copy %s: %w", prefix+name, err)
		}
	default:
		if a.of.Whole {
			return named(prefix+name, errSpecial)
		}
	}
	return nil
}

// header is without the owner, who is somebody else where the archive is read.
func (a archiver) header(info fs.FileInfo, name, target string) error {
	h, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return named(name, err)
	}
	h.Name, h.Uid, h.Gid, h.Uname, h.Gname = name, 0, 0, "", ""
	h.ModTime = h.ModTime.Truncate(time.Second) // it would be rounded, into the future
	return a.WriteHeader(h)
}

// Sub opens a directory that is in root by name, and not by a symbolic link.
func Sub(root *os.Root, name string) (*os.Root, error) {
	info, err := root.Lstat(name)
	if err == nil && !info.IsDir() {
		err = syscall.ENOTDIR
	}
	if err != nil {
		return nil, named(name, err)
	}
	sub, err := root.OpenRoot(name)
	if err != nil {
		return nil, named(name, err)
	}
	if is, err := sub.Stat("."); err != nil || !os.SameFile(is, info) {
		_ = sub.Close()
		return nil, named(name, errChanged)
	}
	return sub, nil
}

// Open opens a regular file to read it, by os.OpenFile or that of a root. It waits for nobody, as opening a pipe would.
func Open(open func(string, int, fs.FileMode) (*os.File, error), name string) (*os.File, fs.FileInfo, error) {
	f, err := open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, named(name, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = syscall.EISDIR
	case !info.Mode().IsRegular():
		err = ErrNotRegular
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, named(name, err)
	}
	return f, info, nil
}

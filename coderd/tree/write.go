package tree

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/xerrors"
)

// ErrNotRegular: it is a device, a pipe, a socket or the like.
var ErrNotRegular = errors.New("not a regular file")

// Options of Write.
type Options struct {
	Mode    *fs.FileMode // permissions; nil: those of the file that is replaced, else what the umask leaves of 0666
	ModTime time.Time    // zero: now
	Sync    bool         // whether it is on disk when Write returns
}

// Write replaces a file in one step: a reader sees the old content or the new one. A symbolic link is replaced too. Where it
// fails, nothing is changed.
func Write(root *os.Root, name string, content io.Reader, o Options) error {
	create := fs.FileMode(0o600) // until it has its mode
	owner := func(*os.File) {}
	switch was, err := root.Lstat(name); {
	case errors.Is(err, fs.ErrNotExist):
		if o.Mode == nil {
			create = 0o666
		}
	case err != nil:
		return named(name, err)
	case was.IsDir():
		return named(name, syscall.EISDIR)
	case was.Mode().IsRegular():
		if o.Mode == nil {
			o.Mode = new(was.Mode().Perm())
		}
		if stat, ok := was.Sys().(*syscall.Stat_t); ok {
			owner = func(f *os.File) { _ = f.Chown(int(stat.Uid), int(stat.Gid)) } // where it may
		}
	case was.Mode().Type() != fs.ModeSymlink:
		return named(name, ErrNotRegular)
	}
	return replace(root, name, func(temp string) error {
		f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, create)
		if err != nil {
			return named(name, err)
		}
		defer f.Close()
		hold(f)
		if _, err := io.Copy(f, content); err != nil {
			if p, is := errors.AsType[*fs.PathError](err); is && p.Op == "write" {
				return named(name, err)
			}
			return xerrors.Errorf("read content: %w", err)
		}
		owner(f)
		if o.Mode != nil {
			err = f.Chmod(o.Mode.Perm())
		}
		if err == nil && o.Sync {
			err = f.Sync()
		}
		if err == nil {
			err = f.Close()
		}
		if err == nil && !o.ModTime.IsZero() {
			err = root.Chtimes(temp, time.Time{}, o.ModTime)
		}
		return named(name, err)
	}, o.Sync)
}

// WriteFile is Write to a path whose directory is trusted.
func WriteFile(path string, content io.Reader, o Options) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer root.Close()
	return named(path, Write(root, filepath.Base(path), content, o))
}

// replace has put make something under a name of its own, and moves it to name.
func replace(root *os.Root, name string, put func(temp string) error, sync bool) error {
	dir := path.Dir(name)
	sweep(root, dir)
	temp := path.Join(dir, temporary+rand.Text())
	defer func() { _ = root.Remove(temp) }() // also after success: a rename of a file onto itself does nothing
	if err := put(temp); err != nil {
		return err
	}
	err := root.Rename(temp, name)
	if err == nil && sync {
		err = syncDir(root, dir)
	}
	return named(name, err)
}

func syncDir(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// named is an error of the system about a file, under the name that the caller knows.
func named(name string, err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &p):
		err = p.Err
	case errors.As(err, &l):
		err = l.Err
	}
	return &fs.PathError{Op: "access", Path: name, Err: err}
}

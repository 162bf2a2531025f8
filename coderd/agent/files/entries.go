package files

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/coderd/tree"
)

const (
	pageMost  = 1000      // entries of a page
	pageBytes = 768 << 10 // of its JSON at most: what a server reads of an answer is bounded
	batch     = 1024      // names of a directory that are read at once
)

// describe says what a file is. target is of a link.
func describe(name string, info fs.FileInfo, target string) sdk.File {
	f := sdk.File{
		Name: name, Type: "other", Mode: fmt.Sprintf("%04o", info.Mode().Perm()), ModifiedAt: info.ModTime().UTC(), Target: target,
	}
	switch info.Mode().Type() { //nolint:exhaustive // the rest is other
	case 0:
		f.Type, f.Size = "file", info.Size()
	case fs.ModeDir:
		f.Type = "directory"
	case fs.ModeSymlink:
		f.Type = "symlink"
	}
	return f
}

// entry describes what has a name in a directory.
func entry(root *os.Root, name string) (sdk.File, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return sdk.File{}, in(root, err)
	}
	target := ""
	if info.Mode().Type() == fs.ModeSymlink {
		target, _ = root.Readlink(name)
	}
	return describe(name, info, target), nil
}

func (p place) show(w http.ResponseWriter) error {
	f, err := entry(p.Root, p.name)
	if err == nil {
		answer(w, http.StatusOK, f)
	}
	return err
}

func (s server) stat(w http.ResponseWriter, r *http.Request) error {
	path := s.pathOf(r)
	if flag(r.URL.Query(), "follow") || filepath.Dir(path) == path {
		info, err := os.Stat(path)
		if err == nil {
			answer(w, http.StatusOK, describe(filepath.Base(path), info, ""))
		}
		return err
	}
	at, err := s.place(path, false)
	if err != nil {
		return err
	}
	defer at.Close()
	return at.show(w)
}

// list sorts by name without holding all names of a large directory.
func (s server) list(w http.ResponseWriter, r *http.Request) error {
	q, path := r.URL.Query(), s.pathOf(r)
	most, _ := strconv.Atoi(q.Get("limit"))
	most = min(cmp.Or(max(most, 0), pageMost), pageMost)
	root, err := openDir(path, false)
	if err != nil {
		return err
	}
	defer root.Close()
	names, more, err := firstNames(root, q.Get("after"), most)
	if err != nil {
		return in(root, err)
	}
	list := sdk.FileList{Path: path, Files: []sdk.File{}}
	bytes := 0
	for i, name := range names {
		f, err := entry(root, name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone by now
		}
		if err != nil {
			return err
		}
		list.Files = append(list.Files, f)
		if bytes += 200 + 6*(len(f.Name)+len(f.Target)); bytes > pageBytes && i+1 < len(names) { // six for a character that is escaped
			names, more = names[:i+1], true
			break
		}
	}
	if more {
		list.Next = names[len(names)-1]
	}
	answer(w, http.StatusOK, list)
	return nil
}

// firstNames are at most so many, those after a name, and whether there are more.
func firstNames(root *os.Root, after string, most int) (names []string, more bool, err error) {
	d, err := root.Open(".")
	if err != nil {
		return nil, false, err
	}
	defer d.Close()
	for {
		some, err := d.Readdirnames(batch)
		for _, name := range some {
			if name > after {
				names = append(names, name)
			}
		}
		slices.Sort(names)
		if len(names) > most {
			names, more = names[:most], true
		}
		if errors.Is(err, io.EOF) {
			return names, more, nil
		}
		if err != nil {
			return nil, false, err
		}
	}
}

func (s server) makeDirectory(w http.ResponseWriter, r *http.Request) error {
	var what sdk.MakeDirectory
	if err := decode(r, &what); err != nil {
		return err
	}
	mode, err := modeOf(what.Mode)
	if err != nil {
		return err
	}
	at, err := s.place(s.path(what.Path), what.Parents)
	if err != nil {
		return err
	}
	defer at.Close()
	err = at.Mkdir(at.name, 0o777)
	if info, isErr := at.Stat(at.name); what.Parents && errors.Is(err, fs.ErrExist) && isErr == nil && info.IsDir() {
		err = nil
	} else if err == nil && mode != nil {
		err = at.Chmod(at.name, *mode) // whatever the umask
	}
	if err != nil {
		return in(at.Root, err)
	}
	return at.show(w)
}

func (s server) remove(w http.ResponseWriter, r *http.Request) error {
	at, err := s.place(s.pathOf(r), false)
	if err != nil {
		return err
	}
	defer at.Close()
	if flag(r.URL.Query(), "recursive") {
		if _, err = at.Lstat(at.name); err == nil { // RemoveAll is content with nothing
			err = at.RemoveAll(at.name)
		}
	} else {
		err = at.Remove(at.name)
	}
	if err != nil {
		return in(at.Root, err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// places are those of a move or a copy. The caller calls done.
func (s server) places(r *http.Request) (what sdk.MoveFile, from, to place, done func(), err error) {
	if err := decode(r, &what); err != nil {
		return what, from, to, nil, err
	}
	if from, err = s.place(s.path(what.From), false); err != nil {
		return what, from, to, nil, err
	}
	if to, err = s.place(s.path(what.To), false); err != nil {
		_ = from.Close()
		return what, from, to, nil, err
	}
	return what, from, to, func() { _, _ = from.Close(), to.Close() }, nil
}

func (s server) move(w http.ResponseWriter, r *http.Request) error {
	what, from, to, done, err := s.places(r)
	if err != nil {
		return err
	}
	defer done()
	if err := rename(from, to, what.Overwrite); errors.Is(err, unix.EXDEV) { // to another file system
		if err = duplicate(r.Context(), from, to, what.Overwrite, true); err == nil { // what was not copied must not go
			err = in(from.Root, from.RemoveAll(from.name))
		}
		if err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	return to.show(w)
}

// rename is that of two directories, which os.Root has not.
func rename(from, to place, overwrite bool) error {
	a, err := from.Open(".")
	if err != nil {
		return in(from.Root, err)
	}
	defer a.Close()
	b, err := to.Open(".")
	if err != nil {
		return in(to.Root, err)
	}
	defer b.Close()
	flags := uint(unix.RENAME_NOREPLACE)
	if overwrite {
		flags = 0
	}
	err = unix.Renameat2(int(a.Fd()), from.name, int(b.Fd()), to.name, flags)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return &fs.PathError{Path: filepath.Join(from.Root.Name(), from.name), Err: err}
	}
	return &fs.PathError{Path: filepath.Join(to.Root.Name(), to.name), Err: err}
}

func (s server) copy(w http.ResponseWriter, r *http.Request) error {
	what, from, to, done, err := s.places(r)
	if err != nil {
		return err
	}
	defer done()
	if err := duplicate(r.Context(), from, to, what.Overwrite, false); err != nil {
		return err
	}
	return to.show(w)
}

// duplicate copies a file, a link or a tree; over what is there where it may, into a directory that is there too. A tree is
// without its pipes, sockets and devices, unless they are refused, as it is to be whole.
func duplicate(ctx context.Context, from, to place, overwrite, whole bool) error {
	info, err := from.Lstat(from.name)
	if err != nil {
		return in(from.Root, err)
	}
	if _, err := to.Lstat(to.name); err == nil && !overwrite {
		return in(to.Root, &fs.PathError{Path: to.name, Err: syscall.EEXIST})
	}
	switch info.Mode().Type() { //nolint:exhaustive // the rest is refused as no regular file
	case fs.ModeDir:
		return duplicateTree(ctx, from, to, whole)
	case fs.ModeSymlink:
		target, err := from.Readlink(from.name)
		if err != nil {
			return in(from.Root, err)
		}
		return in(to.Root, tree.Symlink(to.Root, to.name, target))
	}
	f, is, err := tree.Open(from.OpenFile, from.name)
	if err == nil && !os.SameFile(is, info) {
		err = xerrors.Errorf("%s changed while it was copied", from.name)
	}
	if err != nil {
		return in(from.Root, err)
	}
	defer f.Close()
	return in(to.Root, tree.Write(to.Root, to.name, reader{ctx, f}, tree.Options{Mode: new(is.Mode().Perm()), ModTime: is.ModTime()}))
}

// reader ends with its context: nobody waits for the rest of a copy.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, r.ctx.Err()
	}
	return r.Reader.Read(p)
}

// duplicateTree has what is read written at once. A copy into itself is without the copy.
func duplicateTree(ctx context.Context, from, to place, whole bool) error {
	source, err := tree.Sub(from.Root, from.name)
	if err != nil {
		return in(from.Root, err)
	}
	defer source.Close()
	if err := to.Mkdir(to.name, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		return in(to.Root, err)
	}
	target, err := tree.Sub(to.Root, to.name)
	if err != nil {
		return in(to.Root, err)
	}
	defer target.Close()
	except, err := target.Stat(".")
	if err != nil {
		return in(target, err)
	}
	r, w := io.Pipe()
	read := make(chan error, 1)
	go func() {
		err := tree.Archive(ctx, w, source, tree.What{Except: except, Whole: whole})
		_ = w.CloseWithError(err)
		read <- err
	}()
	err = tree.Extract(ctx, target, r)
	_ = r.CloseWithError(err)
	if failed := <-read; failed != nil && !errors.Is(failed, err) { // the cause of the other one
		return in(source, failed)
	}
	return in(target, err)
}

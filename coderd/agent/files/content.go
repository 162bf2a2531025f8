package files

import (
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"syscall"

	"github.com/prewarm-dev/prewarm/coderd/tree"
)

// read serves ranges. A file of the system, such as those in /proc, says no size, and is read to its end.
func (s server) read(w http.ResponseWriter, r *http.Request) error {
	f, info, err := tree.Open(os.OpenFile, s.pathOf(r))
	if err != nil {
		return err
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	if info.Size() == 0 {
		_, _ = io.Copy(w, f)
		return nil
	}
	w.Header().Set("ETag", etag(info))
	http.ServeContent(w, r, "", info.ModTime(), f)
	return nil
}

// etag is another one for each content: a download can go on where it was cut.
func etag(info fs.FileInfo) string {
	inode := uint64(0)
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		inode = stat.Ino
	}
	return fmt.Sprintf(`"%x-%x-%x"`, inode, info.ModTime().UnixNano(), info.Size())
}

// write replaces a file in one step. What a symbolic link leads to is written, as by any program.
func (s server) write(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	mode, err := modeOf(q.Get("mode"))
	if err != nil {
		return err
	}
	path := s.pathOf(r)
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() == fs.ModeSymlink {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	at, err := s.place(path, flag(q, "parents"))
	if err != nil {
		return err
	}
	defer at.Close()
	if err := tree.Write(at.Root, at.name, r.Body, tree.Options{Mode: mode, Sync: flag(q, "sync")}); err != nil {
		return in(at.Root, err)
	}
	return at.show(w)
}

// readTree is cut off where it fails: its status is sent by then.
func (s server) readTree(w http.ResponseWriter, r *http.Request) error {
	root, err := openDir(s.pathOf(r), false)
	if err != nil {
		return err
	}
	defer root.Close()
	w.Header().Set("Content-Type", "application/x-tar")
	if err := tree.Archive(r.Context(), w, root, tree.What{}); err != nil {
		_ = http.NewResponseController(w).Flush() // it ends with what is wrong
		panic(http.ErrAbortHandler)
	}
	return nil
}

func (s server) writeTree(w http.ResponseWriter, r *http.Request) error {
	root, err := openDir(s.pathOf(r), flag(r.URL.Query(), "parents"))
	if err != nil {
		return err
	}
	defer root.Close()
	if err := tree.Extract(r.Context(), root, r.Body); err != nil {
		return in(root, err)
	}
	_, _ = io.Copy(io.Discard, r.Body) // archives are padded
	w.WriteHeader(http.StatusNoContent)
	return nil
}

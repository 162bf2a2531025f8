package files

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// operations are the words for what happens to a file.
var operations = []struct {
	op   fsnotify.Op
	word string
}{
	{fsnotify.Create, "create"},
	{fsnotify.Write, "write"},
	{fsnotify.Remove, "remove"},
	{fsnotify.Rename, "rename"},
	{fsnotify.Chmod, "chmod"},
}

// watch writes a line for each change in a directory. A reader that does not read loses changes, and a line says so: the system keeps
// a bounded number of them.
func (s server) watch(w http.ResponseWriter, r *http.Request) error {
	path := s.pathOf(r)
	root, err := openDir(path, false)
	if err != nil {
		return err
	}
	_ = root.Close()
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		defer func() { _ = watcher.Close() }()
		err = watcher.Add(path)
	}
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EMFILE) {
		err = errors.New("there are too many watches: raise fs.inotify.max_user_watches or max_user_instances")
	}
	if err != nil {
		return &fs.PathError{Path: path, Err: err}
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines, control := json.NewEncoder(w), http.NewResponseController(w)
	for change, ok := (sdk.FileChange{Path: path}), true; ok; change, ok = next(r, watcher, path) {
		if lines.Encode(change) != nil || control.Flush() != nil || change.Operation == "end" {
			return nil
		}
	}
	return nil
}

// next waits for a change; false where the client has gone.
func next(r *http.Request, watcher *fsnotify.Watcher, dir string) (sdk.FileChange, bool) {
	for {
		select {
		case <-r.Context().Done():
			return sdk.FileChange{}, false
		case <-watcher.Errors: //nolint:errcheck // mostly that the system dropped changes; it is lost whatever it is
			return sdk.FileChange{Operation: "lost"}, true
		case event := <-watcher.Events:
			if event.Name == dir && event.Has(fsnotify.Remove|fsnotify.Rename) {
				return sdk.FileChange{Operation: "end"}, true
			}
			for _, o := range operations {
				if event.Has(o.op) && event.Name != dir {
					return sdk.FileChange{Name: filepath.Base(event.Name), Operation: o.word}, true
				}
			}
		}
	}
}

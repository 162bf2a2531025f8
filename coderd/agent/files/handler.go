package files

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/tree"
)

const maxRequest = 64 << 10 // bytes of a request in JSON

// Handler serves files; relative paths are in dir.
func Handler(dir string) http.Handler {
	s := server{dir}
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /files":            s.list,
		"DELETE /files":         s.remove,
		"GET /files/stat":       s.stat,
		"GET /files/watch":      s.watch,
		"GET /files/content":    s.read,
		"PUT /files/content":    s.write,
		"GET /files/tree":       s.readTree,
		"PUT /files/tree":       s.writeTree,
		"POST /files/directory": s.makeDirectory,
		"POST /files/move":      s.move,
		"POST /files/copy":      s.copy,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := serve(w, r); err != nil {
				status, detail := refusal(err)
				answer(w, status, map[string]string{"detail": detail})
			}
		})
	}
	return mux
}

type server struct{ dir string }

// path is absolute.
func (s server) path(given string) string {
	if filepath.IsAbs(given) {
		return filepath.Clean(given)
	}
	return filepath.Join(s.dir, given)
}

func (s server) pathOf(r *http.Request) string { return s.path(r.URL.Query().Get("path")) }

// place is where a name is: its directory, which stays the same one whatever is put in its place.
type place struct {
	*os.Root
	name string
}

// place opens the directory that a path is in, and makes it where parents says so. The caller closes it.
func (s server) place(path string, parents bool) (place, error) {
	dir := filepath.Dir(path)
	if dir == path {
		return place{}, &fs.PathError{Path: path, Err: errors.New("is the root of all files")}
	}
	root, err := openDir(dir, parents)
	return place{root, filepath.Base(path)}, err
}

// openDir opens a directory, and makes it where create says so. It leaves it to the umask who may use that, as any program does.
func openDir(path string, create bool) (*os.Root, error) {
	if create {
		if err := os.MkdirAll(path, 0o777); err != nil { //nolint:gosec // as said
			return nil, err
		}
	}
	root, err := os.OpenRoot(path)
	if info, is := os.Stat(path); err != nil && is == nil && !info.IsDir() {
		err = &fs.PathError{Op: "open", Path: path, Err: syscall.ENOTDIR} // it has an error of its own for that
	}
	return root, err
}

// in has the paths of errors absolute, which are relative to a root.
func in(root *os.Root, err error) error {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p) && !filepath.IsAbs(p.Path):
		return &fs.PathError{Op: p.Op, Path: filepath.Join(root.Name(), p.Path), Err: p.Err}
	case errors.As(err, &l):
		return &fs.PathError{Op: l.Op, Path: filepath.Join(root.Name(), l.New), Err: l.Err}
	}
	return err
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

// refusal puts an error of the system into a status and words, with the path.
func refusal(err error) (status int, detail string) {
	detail = err.Error()
	if p := (*fs.PathError)(nil); errors.As(err, &p) {
		detail = p.Path + ": " + p.Err.Error()
	}
	is := func(these ...error) bool {
		return slices.ContainsFunc(these, func(e error) bool { return errors.Is(err, e) })
	}
	switch {
	case is(fs.ErrNotExist):
		return http.StatusNotFound, detail
	case is(fs.ErrExist, tree.ErrNotRegular, syscall.EISDIR, syscall.ENOTDIR, syscall.ELOOP, syscall.EBUSY, syscall.ETXTBSY):
		return http.StatusConflict, detail
	case is(fs.ErrPermission, syscall.EROFS):
		return http.StatusForbidden, detail
	case is(syscall.ENOSPC, syscall.EDQUOT):
		return http.StatusInsufficientStorage, detail
	}
	return http.StatusUnprocessableEntity, detail
}

func decode(r *http.Request, into any) error {
	if err := json.NewDecoder(io.LimitReader(r.Body, maxRequest)).Decode(into); err != nil {
		return xerrors.Errorf("decode request: %w", err)
	}
	return nil
}

// flag is one of a query, false where it is not there.
func flag(q url.Values, name string) bool { return q.Get(name) == "true" }

// modeOf reads permissions; nil where there are none.
func modeOf(text string) (*fs.FileMode, error) {
	if text == "" {
		return nil, nil
	}
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > 0o777 {
		return nil, xerrors.Errorf("mode %q: write permissions in octal, such as 0644", text)
	}
	return new(fs.FileMode(mode)), nil
}

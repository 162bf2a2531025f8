// Package site is the web UI: the files that `make site` builds into dist/, embedded, and how they are served. A binary
// that was built without them, because Node was not there, has none, and says so on the plain page at its root.
//
// Paths of the UI are made up by scripts in the browser, so every path that asks for a page is answered with index.html.
// Files under assets/ carry the hash of their content in their name and are kept by browsers forever; all others are asked
// for anew each time, and answered with 304 while they are the same.
package site

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"golang.org/x/xerrors"
)

// dist holds nothing but .gitkeep until `make site` has run.
//
//go:embed all:dist
var dist embed.FS

// policy lets a page use what comes from this server, as files: nothing written into the page itself is run.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; " +
	"connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

const forever = "public, max-age=31536000, immutable"

// encodings are those that `make site` compresses files in, the best first, and what their names end with.
var encodings = []struct{ name, suffix string }{{"br", ".br"}, {"gzip", ".gz"}}

// Site serves the files of the web UI.
type Site struct{ files map[string]file }

type file struct {
	content    []byte
	compressed map[string][]byte // by the name of the encoding
	kind, tag  string
}

// Built is the UI that this binary was built with; nil where it was built without.
func Built() (*Site, error) {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, xerrors.Errorf("open embedded files: %w", err)
	}
	if _, err := fs.Stat(files, "index.html"); err != nil {
		return nil, nil //nolint:nilerr,nilnil // Not built.
	}
	return New(files)
}

// New reads the files of a UI. One of them is index.html.
func New(files fs.FS) (*Site, error) {
	s := &Site{files: map[string]file{}}
	err := fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(path.Base(name), ".") {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(content)
		f := file{
			content: content, kind: mime.TypeByExtension(path.Ext(name)), tag: hex.EncodeToString(sum[:8]),
			compressed: map[string][]byte{},
		}
		for _, e := range encodings {
			if c, err := fs.ReadFile(files, name+e.suffix); err == nil && len(c) < len(content) {
				f.compressed[e.name] = c
			}
		}
		s.files["/"+name] = f
		return nil
	})
	if err != nil {
		return nil, xerrors.Errorf("read files of the UI: %w", err)
	}
	if _, ok := s.files["/index.html"]; !ok {
		return nil, xerrors.New("read files of the UI: there is no index.html")
	}
	return s, nil
}

// Serve answers a request for a file or a page; false says that it is for neither, and nothing was written.
func (s *Site) Serve(w http.ResponseWriter, r *http.Request) bool {
	if s == nil || (r.Method != http.MethodGet && r.Method != http.MethodHead) {
		return false
	}
	name := r.URL.Path
	f, found := s.files[name]
	if !found || name == "/index.html" {
		// Who asks for a page accepts HTML and says so; scripts and command lines that mistook a path are told so.
		page := path.Ext(name) == "" && !strings.HasPrefix(name, "/assets/") &&
			strings.Contains(r.Header.Get("Accept"), "text/html")
		if !page && name != "/" {
			return false
		}
		name = "/index.html"
		f = s.files[name]
	}
	f.serve(w, r, strings.HasPrefix(name, "/assets/"))
	return true
}

func (f file) serve(w http.ResponseWriter, r *http.Request, hashed bool) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", "no-cache")
	if hashed {
		h.Set("Cache-Control", forever)
	}
	h.Set("Vary", "Accept-Encoding")
	content, tag := f.content, f.tag
	for _, e := range encodings {
		if c, ok := f.compressed[e.name]; ok && accepts(r.Header.Get("Accept-Encoding"), e.name) {
			content, tag = c, tag+"-"+e.name
			h.Set("Content-Encoding", e.name)
			break
		}
	}
	h.Set("Etag", `"`+tag+`"`)
	if strings.Contains(r.Header.Get("If-None-Match"), `"`+tag+`"`) {
		h.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodGet {
		_, _ = bytes.NewReader(content).WriteTo(w)
	}
}

// accepts says whether a list of encodings has the one, unless with a weight of nothing.
func accepts(list, encoding string) bool {
	for one := range strings.SplitSeq(list, ",") {
		name, weight, _ := strings.Cut(strings.TrimSpace(one), ";")
		if name == encoding {
			w, given := strings.CutPrefix(strings.TrimSpace(weight), "q=")
			q, err := strconv.ParseFloat(w, 64)
			return !given || (err == nil && q > 0)
		}
	}
	return false
}

package api

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/go-chi/chi/v5"

	"github.com/prewarm-dev/prewarm/coderd/auth"
)

// The pages need nothing but themselves: no script, no font, and one style, which the content security policy names by
// its hash.
var (
	//go:embed pages/style.css
	style string
	//go:embed pages/home.html
	homePage string
	//go:embed pages/docs.html
	docsPage string
)

// servePages serves the page at the root where there is no web UI, or the reader is no browser, and the description of the API for people (/docs) and machines
// (/openapi.json). None of them says anything about this installation but its version.
func (s *server) servePages(router chi.Router) {
	document := sync.OnceValue(func() []byte { // a tenth of a second of work that few servers are asked for
		b, err := s.document()
		if err != nil {
			panic(err) // a declaration that cannot be described: tests would not let it through
		}
		return b
	})
	router.Get("/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(document())
	})
	home := page(homePage, map[string]any{"Version": s.Version})
	router.Get("/", func(w http.ResponseWriter, r *http.Request) {
		if !s.Site.Serve(w, r) {
			home(w, r)
		}
	})
	router.Get("/docs", page(docsPage, map[string]any{"Version": s.Version, "Operations": described(s.api.OpenAPI())}))
}

// notFound answers whatever has no route: pages and files of the web UI, which makes up paths of its own, and a problem
// for the rest.
func (s *server) notFound(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/api/") || !s.Site.Serve(w, r) {
		writeProblem(w, http.StatusNotFound, "there is nothing at "+r.URL.Path+"; the API is described at /openapi.json")
	}
}

// page is filled in once, and served as it is.
func page(source string, data map[string]any) http.HandlerFunc {
	filled := fill(source, data)
	return func(w http.ResponseWriter, _ *http.Request) { writePage(w, http.StatusOK, filled) }
}

// showPage fills a page in, and answers with it.
func showPage(w http.ResponseWriter, status int, source string, data map[string]any) {
	writePage(w, status, fill(source, data))
}

func fill(source string, data map[string]any) []byte {
	data["Style"] = template.CSS(style) //nolint:gosec // It is a file of ours.
	var filled bytes.Buffer
	if err := template.Must(template.New("page").Parse(source)).Execute(&filled, data); err != nil {
		panic(err) // as above
	}
	return filled.Bytes()
}

func writePage(w http.ResponseWriter, status int, filled []byte) {
	sum := sha256.Sum256([]byte(style))
	w.Header().Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "+
		"style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(filled)
}

// describedOperation is an operation for a reader.
type describedOperation struct {
	Method, Path, Summary, Description string
	Action                             auth.Action
}

func described(doc *huma.OpenAPI) []describedOperation {
	var list []describedOperation
	for path, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Head, item.Post, item.Put, item.Patch, item.Delete, item.Options} {
			if op != nil {
				action, _ := op.Metadata["action"].(auth.Action)
				list = append(list, describedOperation{op.Method, path, op.Summary, op.Description, action})
			}
		}
	}
	slices.SortFunc(list, func(a, b describedOperation) int {
		return strings.Compare(a.Path+" "+a.Method, b.Path+" "+b.Method)
	})
	return list
}

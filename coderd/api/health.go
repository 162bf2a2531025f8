package api

import (
	"crypto/subtle"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/go-chi/chi/v5"
)

// Reserved says whether a request is served even where too many connections are open: a replica that is busy must not pass
// for one that is gone, nor its workspaces for silent.
func Reserved(r *http.Request) bool {
	return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" || strings.HasPrefix(r.URL.Path, prefix+"/instance/")
}

// serveHealth serves what is asked by machines, without a token: whether the process lives, whether it wants requests,
// and its metrics.
func (s *server) serveHealth(router chi.Router) {
	router.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"alive": true, "version": s.Version})
	})
	router.Get("/readyz", func(w http.ResponseWriter, r *http.Request) {
		reasons := s.Ready(r.Context())
		status := http.StatusOK
		if len(reasons) > 0 {
			status = http.StatusServiceUnavailable
			w.Header().Set("Retry-After", "1")
		} else {
			reasons = []string{}
		}
		writeJSON(w, status, map[string]any{"ready": len(reasons) == 0, "reasons": reasons})
	})
	router.Get("/metrics", s.metrics)
}

func (s *server) metrics(w http.ResponseWriter, r *http.Request) {
	token := bearerOf(r.Header.Get("Authorization"))
	if s.MetricsToken != "" && subtle.ConstantTimeCompare([]byte(token), []byte(s.MetricsToken)) != 1 {
		w.Header().Set("WWW-Authenticate", `Bearer realm="prewarm metrics"`)
		writeProblem(w, http.StatusUnauthorized, "the token of --metrics-token-file is needed: send it as `Authorization: Bearer …`")
		return
	}
	s.Metrics.ServeHTTP(w, r)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = plainJSON(w).Encode(v)
}

// plainJSON encodes without escapes of HTML: people read answers too, and an & in a text is to be one.
func plainJSON(w io.Writer) *json.Encoder {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder
}

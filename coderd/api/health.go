package api

import (
	"encoding/json"
	"net/http"

	"github.com/go-chi/chi/v5"
)

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
	router.Method(http.MethodGet, "/metrics", s.Metrics)
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

package api_test

import (
	"context"
	"net/http"
	"testing"

	"cdr.dev/slog"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/api"
)

// requestLines are the lines of requests, by path.
type requestLines chan [2]string

func (l requestLines) LogEntry(_ context.Context, e slog.SinkEntry) {
	if e.Message != "request" {
		return
	}
	for _, f := range e.Fields {
		if path, ok := f.Value.(string); ok && f.Name == "path" {
			l <- [2]string{e.Level.String(), path}
		}
	}
}
func (requestLines) Sync() {}

// A request that failed always has its line, one that went well only where it is asked for.
func TestAccessLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, all := range []bool{true, false} {
		lines := make(requestLines, 10)
		w.url = w.serve(api.Options{Log: slog.Make(lines).Leveled(slog.LevelDebug), LogRequests: all})
		require.Equal(t, http.StatusOK, w.call(w.token["owner"], http.MethodGet, "/api/v1/whoami", "").status)
		require.Equal(t, http.StatusNotFound, w.call(w.token["owner"], http.MethodGet, "/api/v1/nothing", "").status)
		if all {
			require.Equal(t, [2]string{"DEBUG", "/api/v1/whoami"}, <-lines)
		}
		require.Equal(t, [2]string{"INFO", "/api/v1/nothing"}, <-lines)
	}
}

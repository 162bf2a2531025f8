package api

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// Problems are read by people as they come: an & is one, and not an escape of HTML.
func TestProblemIsPlain(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	writeProblem(w, http.StatusNotFound, "a && b <c>")
	require.Contains(t, w.Body.String(), `"a && b <c>"`)
}

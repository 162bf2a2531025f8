package gitea_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/gitea"
)

// A job of the API does not say by which count its attempt is: the version does, and is asked for only where it matters.
func TestJob_version(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		version string
		counted int
		runner  int64
		attempt int
		asked   int
	}{
		{"1.26.4", 0, 0, 1, 0},
		{"1.26.4", 1, 17, 1, 0},
		{"1.26.4", 1, 0, 2, 1},
		{"1.26.4", 2, 17, 2, 1},
		{"1.27.3", 1, 0, 1, 1},
		{"1.27.3", 1, 17, 1, 0},
		{"1.28.0+dev-12-gabc", 2, 0, 2, 1},
		{"2.0.0", 2, 0, 2, 1},
	} {
		t.Run(fmt.Sprintf("%s, %d, runner %d", c.version, c.counted, c.runner), func(t *testing.T) {
			t.Parallel()
			asked := 0
			mux := http.NewServeMux()
			mux.HandleFunc("GET /api/v1/version", func(w http.ResponseWriter, _ *http.Request) {
				asked++
				fmt.Fprintf(w, `{"version": %q}`, c.version)
			})
			mux.HandleFunc("GET /api/v1/repos/acme/shop/actions/jobs/31", func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"id": 31, "run_attempt": %d, "runner_id": %d, "status": "queued", "steps": []}`, c.counted, c.runner)
			})
			server := httptest.NewServer(mux)
			t.Cleanup(server.Close)
			client, err := gitea.Kind.Connect(forge.Connection{
				URL: server.URL, Scope: forge.Repository, Path: "acme/shop", Token: "secret-token",
			})
			require.NoError(t, err)
			j, err := client.Job(t.Context(), "acme/shop", 31)
			require.NoError(t, err)
			assert.Equal(t, c.attempt, j.Attempt)
			assert.Equal(t, c.asked, asked)
		})
	}
}

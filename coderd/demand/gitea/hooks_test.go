package gitea_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/demand/forge"
	"github.com/prewarm-dev/prewarm/coderd/demand/gitea"
)

// A Gitea before 1.26 lists the webhooks of the instance whole, whatever page is asked for: the listing ends all the same.
func TestHooks_listedWhole(t *testing.T) {
	t.Parallel()
	listed := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		listed++
		assert.Equal(t, "/api/v1/admin/hooks", r.URL.Path)
		_, _ = io.WriteString(w, `[{"id": 3, "config": {"url": "https://elsewhere.example"}}, {"id": 4, "config": {"url": "https://x.example"}}]`)
	}))
	t.Cleanup(server.Close)
	f, err := gitea.Kind.Connect(forge.Connection{URL: server.URL, Scope: forge.Enterprise, Path: "instance", Token: "a-secret"})
	require.NoError(t, err)
	hooks, err := f.Hooks(t.Context(), "https://x.example")
	require.NoError(t, err)
	require.Len(t, hooks, 1)
	require.EqualValues(t, 4, hooks[0].ID)
	require.Equal(t, 2, listed)
}

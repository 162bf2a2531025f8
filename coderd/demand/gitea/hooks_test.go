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

// A Gitea before 1.26 lists the webhooks of the instance whole, whatever page is asked for: the listing ends all the same, and the
// one that calls the address is set aright.
func TestHooks_listedWhole(t *testing.T) {
	t.Parallel()
	listed, patched := 0, ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.Method {
		case http.MethodGet:
			listed++
			_, _ = io.WriteString(w, `[{"id": 3, "config": {"url": "https://elsewhere.example"}}, {"id": 4, "config": {"url": "https://x.example"}}]`)
		case http.MethodPatch:
			patched = r.URL.Path
			_, _ = io.WriteString(w, `{"id": 4, "active": true, "config": {"url": "https://x.example"}, "events": ["workflow_job"]}`)
		default:
			assert.Fail(t, "another webhook is made", "%s %s", r.Method, r.URL)
		}
	}))
	t.Cleanup(server.Close)
	f, err := gitea.Kind.Connect(forge.Connection{URL: server.URL, Scope: forge.Enterprise, Path: "instance", Token: "a-secret"})
	require.NoError(t, err)
	hook, err := f.InstallHook(t.Context(), "https://x.example", "the-secret-of-it")
	require.NoError(t, err)
	require.EqualValues(t, 4, hook.ID)
	require.Equal(t, "/api/v1/admin/hooks/4", patched)
	require.Equal(t, 2, listed)
}

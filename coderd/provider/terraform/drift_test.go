package terraform_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider"
	"github.com/prewarm-dev/prewarm/coderd/provider/terraform/codertest"
)

// A workspace of the providers that many modules use, looked at for drift: what was changed or removed at the place itself is named.
// A look changes nothing there, nor in the state.
func TestDrift(t *testing.T) {
	t.Parallel()
	c := newCloud(t)
	c.Mirror = codertest.Usual(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("from far"))
	}))
	defer server.Close()
	req := c.request("w", fmt.Sprintf(`
		terraform {
		  required_providers {
		    http   = { source = "hashicorp/http" }
		    local  = { source = "hashicorp/local" }
		    null   = { source = "hashicorp/null" }
		    random = { source = "hashicorp/random" }
		  }
		}
		data "http" "far" { url = %q }
		resource "random_pet" "name" {}
		resource "null_resource" "after" { triggers = { name = random_pet.name.id } }
		resource "local_file" "a" {
		  filename = "%[2]s/a"
		  content  = data.http.far.body
		}
		resource "local_file" "many" {
		  for_each = toset(["b", "c"])
		  filename = "%[2]s/${each.key}"
		  content  = "${each.key} of ${null_resource.after.triggers.name}"
		}`, server.URL, c.dir), false)
	_, err := c.Create(t.Context(), req)
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "b", "c"}, c.files())
	d, ok := provider.As[provider.Drifter](c.Provider)
	require.True(t, ok)

	drift, err := d.Drift(t.Context(), refTo(req))
	require.NoError(t, err)
	require.Empty(t, drift)
	before, err := c.states.State(t.Context(), req.Tags.WorkspaceID)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "a"), []byte("other"), 0o600))
	require.NoError(t, os.Remove(filepath.Join(c.dir, "b")))
	drift, err = d.Drift(t.Context(), refTo(req))
	require.NoError(t, err)
	require.Equal(t, []string{"local_file.a", `local_file.many["b"]`}, drift)

	content, err := os.ReadFile(filepath.Join(c.dir, "a"))
	require.NoError(t, err)
	require.Equal(t, "other", string(content))
	require.ElementsMatch(t, []string{"a", "c"}, c.files())
	after, err := c.states.State(t.Context(), req.Tags.WorkspaceID)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	entries, err := os.ReadDir(c.root)
	require.NoError(t, err)
	require.Empty(t, entries, "a run left something")

	require.NoError(t, c.Delete(t.Context(), refTo(req)))
	require.Equal(t, []string{"a"}, c.files(), "the plugin takes a file with another content for somebody else's")
	_, err = d.Drift(t.Context(), refTo(req))
	require.ErrorIs(t, err, provider.ErrNotFound)
}

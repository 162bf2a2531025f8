package terraform_test

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/provider/terraform"
)

// With a mirror, providers of modules come from it, and from nowhere else.
func TestMirror(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	o := w.Options
	o.Mirror = filepath.Join(w.root, "mirror")
	_, err := terraform.New(t.Context(), o)
	require.ErrorContains(t, err, "mirror: ")
	dir := filepath.Join(o.Mirror, "example.com/acme/thing/1.2.3", runtime.GOOS+"_"+runtime.GOARCH)
	require.NoError(t, os.MkdirAll(dir, 0o755))
	executable(t, filepath.Join(dir, "terraform-provider-thing_v1.2.3"), "exit 1", 0o755) // init installs it, and does not start it
	w.Runner, err = terraform.New(t.Context(), o)
	require.NoError(t, err)

	needs := func(source string) *terraform.Run {
		return w.open("terraform {\n  required_providers {\n    thing = { source = \""+source+"\" }\n  }\n}", nil)
	}
	require.NoError(t, needs("example.com/acme/thing").Init(t.Context(), io.Discard))
	require.ErrorContains(t, needs("hashicorp/null").Init(t.Context(), io.Discard), w.root)

	for _, wrong := range []string{"mirror", w.root + "/mir\"ror", "/$HOME", filepath.Join(dir, "terraform-provider-thing_v1.2.3")} {
		o.Mirror = wrong
		_, err := terraform.New(t.Context(), o)
		require.ErrorContains(t, err, "mirror: ", wrong)
	}
	if os.Geteuid() == 0 {
		o.Mirror = filepath.Join(w.root, "mirror")
		require.NoError(t, os.Chmod(o.Mirror, 0o700))
		_, err := terraform.New(t.Context(), o)
		require.ErrorContains(t, err, "cannot enter "+o.Mirror)
	}
}

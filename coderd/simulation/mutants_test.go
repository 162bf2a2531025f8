package simulation

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMutants_apply: each planted mutation still applies to the tree as it is, and says what should notice it. Whether
// something does is what `make sim-mutants` shows.
func TestMutants_apply(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	patches, err := filepath.Glob(filepath.Join(root, "scripts/mutants/simulation/*.patch"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(patches), 12)
	header := regexp.MustCompile(`^[A-Z].*\.\n\nInvariant: .+\n\n--- a/`)
	for _, patch := range patches {
		content, err := os.ReadFile(patch)
		require.NoError(t, err)
		require.Regexp(t, header, string(content), patch)
		cmd := exec.CommandContext(t.Context(), "patch", "--dry-run", "--force", "-p1", "-d", root, "-i", patch)
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s does not apply any more: %s", filepath.Base(patch), out)
	}
}

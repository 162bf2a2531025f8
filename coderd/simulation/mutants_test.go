package simulation

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestMutants_sayWhatNotices: each planted mutation says what it takes out and which invariant should notice. That it
// still applies to the tree is a test of scripts/rules; whether something notices is what `make sim-mutants` shows.
func TestMutants_sayWhatNotices(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	patches, err := filepath.Glob(filepath.Join(root, "scripts/mutants/simulation/*.patch"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(patches), 24)
	header := regexp.MustCompile(`^[A-Z].*\.\n\nInvariant: .+\n\n--- a/`)
	for _, patch := range patches {
		content, err := os.ReadFile(patch)
		require.NoError(t, err)
		require.Regexp(t, header, string(content), patch)
	}
}

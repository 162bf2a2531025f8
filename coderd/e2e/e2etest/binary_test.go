package e2etest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/programtest"
)

func TestCheckGiven(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	program, data := filepath.Join(dir, "program"), filepath.Join(dir, "data")
	programtest.Write(t, program, nil, 0o755)
	require.NoError(t, os.WriteFile(data, nil, 0o644))

	path, err := checkGiven(program)
	require.NoError(t, err)
	require.Equal(t, program, path)
	for _, wrong := range []string{"bin/prewarm", data, dir, filepath.Join(dir, "missing")} {
		_, err := checkGiven(wrong)
		require.ErrorContains(t, err, BinaryEnv, wrong)
	}
}

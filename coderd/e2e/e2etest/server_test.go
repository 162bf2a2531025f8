package e2etest

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestServer_LogBetween(t *testing.T) {
	t.Parallel()
	s := &Server{log: filepath.Join(t.TempDir(), "log")}
	require.NoError(t, os.WriteFile(s.log, []byte(`2026-11-28 05:02:22.999 [info]  before
2026-11-28 05:02:23.000 [warn]  first ...
    error= what belongs to it
2026-11-28 05:02:24.500 [info]  last
2026-11-28 05:02:24.501 [info]  after
    error= of another
`), 0o600))
	from := time.Date(2026, 11, 28, 5, 2, 23, 0, time.Local)
	require.Equal(t, `2026-11-28 05:02:23.000 [warn]  first ...
    error= what belongs to it
2026-11-28 05:02:24.500 [info]  last
`, s.LogBetween(from, from.Add(1500*time.Millisecond)))
	require.Empty(t, s.LogBetween(from.Add(time.Hour), from.Add(2*time.Hour)))
}

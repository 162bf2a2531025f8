package database_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
)

func TestText(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a\uFFFDb\uFFFDc", database.Text("a\x00b\xffc"))
	require.Equal(t, "äb", database.TextAtMost("äb", 3))
	require.Equal(t, "ä …", database.TextAtMost("äbc", 2))
	require.Equal(t, "ä …", database.TextAtMost("äöc", 3), "no half of a letter is kept")
	require.Equal(t, "a\uFFFD …", database.TextAtMost("a\xffbc", 4))
}

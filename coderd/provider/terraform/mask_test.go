package terraform

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// However the output is cut into writes, no secret gets through, and all else does.
func TestMask(t *testing.T) {
	t.Parallel()
	const secret, inner, key = "correct horse", "horse battery", "-----BEGIN\nkey material\n-----END"
	text := "a correct horse and horse battery\n\nkey material\nx" + strings.Repeat("y", 2*maxLine) + " correct horse battery"
	want := "a [redacted] and [redacted]\n\n[redacted]\nx" + strings.Repeat("y", 2*maxLine) + " [redacted] battery"
	for _, size := range []int{1, 7, 4096, len(text)} {
		var log, tail strings.Builder
		m := newMask(&log, &tail, []string{secret, inner, key, "", "x"})
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			_, err := m.Write([]byte(rest[:n]))
			require.NoError(t, err)
			rest = rest[n:]
		}
		m.end()
		require.Equal(t, want, log.String(), size)
		require.Equal(t, want, tail.String(), size)
	}
}

// The log takes so much and no more; the tail has the end.
func TestMask_limit(t *testing.T) {
	t.Parallel()
	var log, tail strings.Builder
	m := newMask(&log, &tail, nil)
	for range 2 * maxOutput / 1024 {
		_, err := m.Write([]byte(strings.Repeat("z", 1023) + "\n"))
		require.NoError(t, err)
	}
	m.end()
	require.Equal(t, maxOutput+len(tooMuch), log.Len())
	require.True(t, strings.HasSuffix(log.String(), tooMuch))
	require.Equal(t, 2*maxOutput, tail.Len())
}

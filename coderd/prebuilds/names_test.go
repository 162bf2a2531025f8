package prebuilds

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestName(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		random []byte
		want   string
	}{
		{bytes.Repeat([]byte{0}, 9), "prebuild-aaaaaaaaaaaaaaa"},
		{bytes.Repeat([]byte{0xff}, 9), "prebuild-77777777777777y"},
		{[]byte("prewarmed"), "prebuild-obzgk53bojwwkza"},
	} {
		name, err := Name(bytes.NewReader(tc.random))
		require.NoError(t, err)
		assert.Equal(t, tc.want, name)
		assert.Len(t, name, 24)
		assert.True(t, IsName(name))
	}

	seen := make(map[string]bool)
	for range 1000 {
		name, err := Name(rand.Reader)
		require.NoError(t, err)
		require.Regexp(t, `^prebuild-[a-z2-7]{15}$`, name)
		require.False(t, seen[name], "the same name twice: %s", name)
		seen[name] = true
	}
}

func TestNameWithoutRandomness(t *testing.T) {
	t.Parallel()
	_, err := Name(bytes.NewReader(make([]byte, 8)))
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	broken := errors.New("no entropy")
	_, err = Name(iotest.ErrReader(broken))
	require.ErrorIs(t, err, broken)
}

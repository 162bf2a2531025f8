package seal_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/coder/quartz"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/seal"
)

func key(fill byte) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(fill)), 32)))
}

func write(t *testing.T, path string, lines ...string) {
	t.Helper()
	require.NoError(t, os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600))
}

// What is sealed opens only for what it was sealed for, and not when a bit of it has changed.
func TestSeal(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "encryption.keys")
	keys := seal.Open(path, true, quartz.NewMock(t))
	sealed, id, err := keys.Seal([]byte("s3cret"), "a/token")
	require.NoError(t, err)
	require.NotContains(t, string(sealed), "s3cret")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	require.False(t, keys.Exposed())
	require.NoError(t, os.Chmod(path, 0o440))
	require.True(t, keys.Exposed(), "its own user needs no group")
	if os.Geteuid() == 0 { // who else may give it away
		require.NoError(t, os.Chown(path, 65532, 0))
		require.False(t, keys.Exposed(), "as a pod has a secret: of another user, for its group to read")
		require.NoError(t, os.Chmod(path, 0o460))
		require.True(t, keys.Exposed(), "the group could write it")
		require.NoError(t, os.Chown(path, 0, 0))
	}
	require.NoError(t, os.Chmod(path, 0o644))
	require.True(t, keys.Exposed())

	// Another replica with the same file.
	again := seal.Open(path, false, quartz.NewMock(t))
	plain, err := again.Open(sealed, id, "a/token")
	require.NoError(t, err)
	require.Equal(t, "s3cret", string(plain))
	_, err = again.Open(sealed, id, "b/token")
	require.ErrorContains(t, err, "altered")
	for i := range sealed {
		changed := append([]byte{}, sealed...)
		changed[i] ^= 1
		_, err = again.Open(changed, id, "a/token")
		require.ErrorContains(t, err, "altered")
	}
	_, err = again.Open(nil, id, "a/token")
	require.ErrorContains(t, err, "altered")
	twice, _, err := keys.Seal([]byte("s3cret"), "a/token")
	require.NoError(t, err)
	require.NotEqual(t, sealed, twice, "each has a nonce of its own")
}

// The first key seals and all open; a change of the file is seen within a second, without a restart.
func TestRotation(t *testing.T) {
	t.Parallel()
	clock := quartz.NewMock(t)
	path := filepath.Join(t.TempDir(), "keys")
	write(t, path, "# ours", "one:"+key('1'), "")
	keys := seal.Open(path, false, clock)
	old, id, err := keys.Seal([]byte("x"), "a")
	require.NoError(t, err)
	require.Equal(t, "one", id)

	write(t, path, "two:"+key('2'), "one:"+key('1'))
	_, id, err = keys.Seal([]byte("x"), "a")
	require.NoError(t, err)
	require.Equal(t, "one", id, "it was looked at less than a second ago")
	current, err := keys.Current()
	require.NoError(t, err)
	require.Equal(t, "two", current, "who takes the old key out goes by this")
	_, id, err = keys.Seal([]byte("x"), "a")
	require.NoError(t, err)
	require.Equal(t, "two", id)
	_, err = keys.Open(old, "one", "a")
	require.NoError(t, err)

	write(t, path, "two:"+key('2'))
	clock.Advance(time.Second)
	_, err = keys.Open(old, "one", "a")
	var missing *seal.NoKey
	require.ErrorAs(t, err, &missing)
	require.EqualError(t, err, `encryption key "one" is not in `+path+" of this replica: every replica needs the same file")
	write(t, path, "one:"+key('3'), "two:"+key('2'), "")
	clock.Advance(time.Second)
	_, err = keys.Open(old, "one", "a")
	require.ErrorContains(t, err, "another key of that name")
}

// What is wrong with a file is said with its line, and never with its key.
func TestBadFile(t *testing.T) {
	t.Parallel()
	for content, says := range map[string]string{
		"": "holds none", "# x": "holds none", key('1'): ":1: write ID:KEY", "a:" + key('1')[:20]: ":1: key a is not 32 bytes",
		"a:" + key('1') + "\na:" + key('2'): ":2: key a is there twice", "\n\na b:" + key('1'): ":3: write ID:KEY",
	} {
		path := filepath.Join(t.TempDir(), "keys")
		write(t, path, content)
		_, _, err := seal.Open(path, false, quartz.NewMock(t)).Seal([]byte("x"), "a")
		require.ErrorContains(t, err, says, content)
		require.NotContains(t, err.Error(), key('1')[:20])
	}
	_, _, err := seal.Open(filepath.Join(t.TempDir(), "none"), false, quartz.NewMock(t)).Seal([]byte("x"), "a")
	require.ErrorIs(t, err, os.ErrNotExist)
}

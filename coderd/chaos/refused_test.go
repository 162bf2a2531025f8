package chaos_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/database/embedded"
)

// refused starts a server that must refuse to run, with one clear message, and returns what it said.
func refused(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	out := e2etest.Run(ctx, t, nil, append([]string{"server", "--listen", freeAddress(t)}, args...)...)
	assert.Equal(t, 1, out.Status, out.Stderr)
	assert.Empty(t, out.Stdout)
	assert.Equal(t, 1, strings.Count(out.Stderr, "prewarm: "), "it is said once: %s", out.Stderr)
	return out.Stderr
}

func TestRefused_portInUse(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	dir := filepath.Join(folder(t), "data")
	said := refused(t, "--data-dir", dir, "--listen", taken.Addr().String())
	assert.Contains(t, said, taken.Addr().String())
	assert.Equal(t, 1, strings.Count(said, "address already in use"), said)
	assert.Equal(t, 1, strings.Count(said, "--listen"), said)
	assert.NoDirExists(t, dir, "nothing was made")
}

func TestRefused_dataDirectoryOfAnotherOwner(t *testing.T) {
	t.Parallel()
	dir := "/usr" // root's
	if os.Geteuid() == 0 {
		dir = folder(t)
		require.NoError(t, os.Chown(dir, 65534, 65534))
	}
	said := refused(t, "--data-dir", dir)
	assert.Contains(t, said, dir+" belongs to user")
	assert.Contains(t, said, "--data-dir")
	if os.Geteuid() == 0 {
		assert.Empty(t, namesIn(t, dir), "it is left alone")
	}
}

func TestRefused_dataDirectoryInUse(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	said := refused(t, "--data-dir", w.dir)
	assert.Contains(t, said, fmt.Sprintf("is in use by the server with process id %d", w.server.PID()))
	assert.True(t, ready(w), "the other goes on")
}

// A cluster of another major version is refused and stays as it is, bit by bit.
func TestRefused_clusterOfAnotherMajorVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	require.Zero(t, w.server.Stop())
	write(t, filepath.Join(w.dir, "postgres"), "PG_VERSION", "13\n")
	before := digest(t, filepath.Join(w.dir, "postgres"))
	said := refused(t, "--data-dir", w.dir)
	assert.Contains(t, said, "was made by PostgreSQL 13 and stays as it is")
	assert.Contains(t, said, "pg_upgrade")
	assert.Equal(t, before, digest(t, filepath.Join(w.dir, "postgres")))
}

// digest is of all names, modes and contents below dir.
func digest(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	require.NoError(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		fmt.Fprintln(sum, path, info.Mode(), info.Size())
		if !e.Type().IsRegular() {
			return nil
		}
		content, err := os.ReadFile(path)
		sum.Write(content)
		return err
	}))
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// A database that is down is waited for, for a while.
func TestRefused_databaseIsDown(t *testing.T) {
	t.Parallel() // it takes half a minute, in which nothing happens
	address := freeAddress(t)
	said := refused(t, "--data-dir", folder(t), "--postgres-url", "postgres://somebody:hunter2@"+address+"/prewarm")
	assert.Contains(t, said, "the database does not answer; asking again")
	last := said[strings.Index(said, "prewarm: "):]
	assert.Contains(t, last, address)
	assert.Contains(t, last, "connection refused")
	assert.Contains(t, last, "--postgres-url")
	assert.Equal(t, 1, strings.Count(last, "is it running"), last)
	assert.NotContains(t, said, "hunter2")
}

// A database that says no is not asked again.
func TestRefused_wrongPassword(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	cluster, err := embedded.Start(context.Background(), embedded.Options{DataDir: dir})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		assert.NoError(t, cluster.Stop(ctx))
	})
	hba := filepath.Join(dir, "postgres", "pg_hba.conf")
	require.NoError(t, os.WriteFile(hba, []byte("local all all scram-sha-256\n"), 0o600))
	database, ok := postmaster(dir)
	require.True(t, ok)
	require.NoError(t, syscall.Kill(database.PID, syscall.SIGHUP))

	u, err := url.Parse(cluster.URL())
	require.NoError(t, err)
	u.User = url.UserPassword("prewarm", "hunter2")
	said := refused(t, "--data-dir", filepath.Join(dir, "server"), "--postgres-url", u.String())
	assert.Contains(t, said, "password authentication failed")
	assert.NotContains(t, said, "asking again")
	assert.NotContains(t, said, "hunter2")
}

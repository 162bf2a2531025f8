package embedded_test

import (
	"context"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/programtest"
)

// The server is killed, and the next one starts at once, while the PostgreSQL of the first may still be dying.
func TestKilledServer_nextStartRecovers(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	for round := range 4 {
		server := startHolder(t, executable(t), dir, nil)
		old := postmaster(t, dir)
		execute(t, server.url, "CREATE TABLE IF NOT EXISTS rounds (n integer)")
		execute(t, server.url, "INSERT INTO rounds VALUES (1)")
		if round == 3 { // also one that is stopped
			require.NoError(t, syscall.Kill(old, syscall.SIGSTOP))
		}
		server.kill(t)

		cluster := start(t, dir)
		require.True(t, gone(old))
		require.Equal(t, strconv.Itoa(round+1), query(t, cluster.URL(), "SELECT count(*)::text FROM rounds"))
		require.NoError(t, cluster.Stop(context.Background()))
	}
}

func TestKilledServer_takesPostgreSQLWithIt(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	server := startHolder(t, executable(t), dir, nil)
	pid := postmaster(t, dir)
	server.kill(t)
	require.Eventually(t, func() bool { return gone(pid) }, patience, 10*time.Millisecond)
}

func TestKilledPostgreSQL_isStartedAgain(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	cluster := start(t, dir)
	execute(t, cluster.URL(), "CREATE TABLE kept AS SELECT 'kept' AS word")
	for range 3 {
		old := postmaster(t, dir)
		require.NoError(t, syscall.Kill(old, syscall.SIGKILL))
		require.Eventually(t, func() bool {
			word, err := tryQuery(cluster.URL(), "SELECT word FROM kept")
			return err == nil && word == "kept" && postmaster(t, dir) != old
		}, patience, 20*time.Millisecond)
	}
	select {
	case err := <-cluster.Exits():
		require.ErrorContains(t, err, "signal: killed")
	default:
		require.FailNow(t, "nobody was told")
	}
}

// A backend that is stopped never notices that its postmaster is dead, and would hold the shared memory for ever.
func TestKilledPostgreSQL_stoppedChildIsEnded(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	cluster := start(t, dir)
	backend, err := pgx.Connect(context.Background(), cluster.URL())
	require.NoError(t, err)
	defer backend.Close(context.Background())
	stopped := int(backend.PgConn().PID())
	require.NoError(t, syscall.Kill(stopped, syscall.SIGSTOP))
	require.NoError(t, syscall.Kill(postmaster(t, dir), syscall.SIGKILL))
	<-cluster.Exits()
	require.Eventually(t, func() bool {
		_, err := tryQuery(cluster.URL(), "SELECT '1'")
		return err == nil
	}, patience, 20*time.Millisecond)
	require.True(t, gone(stopped))
}

func TestKilledPostgreSQL_stopWhileItIsDown(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	cluster := start(t, dir)
	conf := filepath.Join(dir, "postgres", "postgresql.conf")
	require.NoError(t, os.WriteFile(conf, []byte("max_connections = many\n"), 0o600)) // it cannot come back
	require.NoError(t, syscall.Kill(postmaster(t, dir), syscall.SIGKILL))
	<-cluster.Exits()
	require.NoError(t, cluster.Stop(context.Background()))
	require.NoError(t, os.WriteFile(conf, nil, 0o600))
	require.Equal(t, "1", query(t, start(t, dir).URL(), "SELECT '1'"))
}

func TestKilledWhileMakingTheCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server, _ := runHolder(t, executable(t), dir, nil)
	halfMade := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, "postgres.init-*", "PG_VERSION"))
		require.NoError(t, err)
		return found
	}
	require.Eventually(t, func() bool { return len(halfMade()) == 1 }, patience, time.Millisecond)
	require.NoError(t, server.Process.Kill())
	_ = server.Wait()
	require.NoDirExists(t, filepath.Join(dir, "postgres"))

	require.Equal(t, "1", query(t, start(t, dir).URL(), "SELECT '1'"))
	require.Empty(t, halfMade())
}

// After a restart of a container the process id in the lock files may belong to anything of the same user.
func TestStaleLocks(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	info, err := os.Stat(filepath.Join(dir, "postgres"))
	require.NoError(t, err)
	owner := info.Sys().(*syscall.Stat_t)
	other := exec.Command("sleep", "1000")
	if os.Geteuid() == 0 {
		other.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	require.NoError(t, other.Start())
	defer func() {
		require.NoError(t, other.Process.Kill(), "it was left alone")
		_ = other.Wait()
	}()
	stale := strconv.Itoa(other.Process.Pid) + "\n/somewhere\n"
	for _, name := range []string{"postmaster.pid", ".s.PGSQL.5432.lock"} {
		path := filepath.Join(dir, "postgres", name)
		require.NoError(t, os.WriteFile(path, []byte(stale), 0o600))
		require.NoError(t, os.Chown(path, int(owner.Uid), int(owner.Gid)))
	}

	require.Equal(t, "1", query(t, start(t, dir).URL(), "SELECT '1'"))
}

// A server that root starts is what the other tests are about where they run as root; here it is an ordinary user.
func TestStart_asOrdinaryUser(t *testing.T) {
	// Not parallel: a process that another test starts meanwhile may hold the copied executable open for writing, and
	// then the kernel refuses to run it ("text file busy").
	dir, err := os.MkdirTemp("", "prewarm-embedded-")
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	require.NoError(t, os.Chmod(dir, 0o755))
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))

	var credential *syscall.Credential
	if os.Geteuid() == 0 {
		nobody, err := user.Lookup("nobody")
		require.NoError(t, err)
		uid, err := strconv.Atoi(nobody.Uid)
		require.NoError(t, err)
		credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
		require.NoError(t, os.Chown(data, uid, uid))
	}
	server := startHolder(t, copyOf(t, executable(t), filepath.Join(dir, "server")), data, credential)
	require.Equal(t, "1", query(t, server.url, "SELECT '1'"))
	pidFile, err := os.ReadFile(filepath.Join(data, "postgres", "postmaster.pid"))
	require.NoError(t, err)
	require.Contains(t, string(pidFile), filepath.Join(data, "postgres"), "no detour without need")

	if os.Geteuid() == 0 {
		_, err := tryStart(t, data)
		require.ErrorContains(t, err, "belongs to user nobody")
	}
}

func copyOf(t *testing.T, from, to string) string {
	t.Helper()
	program, err := os.ReadFile(from)
	require.NoError(t, err)
	programtest.Write(t, to, program, 0o755)
	return to
}

package embedded_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"cdr.dev/slog"
	"cdr.dev/slog/sloggers/slogtest"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database/embedded"
)

const patience = 60 * time.Second

// holdEnv makes the test binary a server that runs a cluster in that data directory until it is killed.
const holdEnv = "PREWARM_TEST_HOLD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdEnv); dir != "" {
		hold(dir)
	}
	status := m.Run()
	if base, err := newCluster(); err == nil {
		_ = os.RemoveAll(base)
	}
	os.Exit(status)
}

// newCluster makes a data directory with a new cluster in it.
var newCluster = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "prewarm-embedded-")
	if err != nil {
		return "", err
	}
	cluster, err := embedded.Start(context.Background(), embedded.Options{DataDir: dir})
	if err != nil {
		return dir, err
	}
	return dir, cluster.Stop(context.Background())
})

// dataDir returns a data directory with a cluster that has been used once; made as a copy, which is faster.
func dataDir(t *testing.T) string {
	t.Helper()
	base, err := newCluster()
	require.NoError(t, err)
	dir := t.TempDir()
	out, err := exec.Command("cp", "-a", base+"/.", dir).CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

func hold(dir string) {
	cluster, err := embedded.Start(context.Background(), embedded.Options{DataDir: dir})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(cluster.URL())
	select {}
}

// holder is another server process.
type holder struct {
	*exec.Cmd
	url string
}

// startHolder starts one, as it is called or as the user given, and waits for its cluster.
func startHolder(t *testing.T, binary, dir string, credential *syscall.Credential) holder {
	t.Helper()
	cmd, lines := runHolder(t, binary, dir, credential)
	require.True(t, lines.Scan(), "it says nothing")
	require.True(t, strings.HasPrefix(lines.Text(), "postgres://"), lines.Text())
	return holder{cmd, lines.Text()}
}

func runHolder(t *testing.T, binary, dir string, credential *syscall.Credential) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(binary)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), holdEnv+"="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

func (h holder) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, h.Process.Kill())
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

func start(t *testing.T, dir string) *embedded.Cluster {
	t.Helper()
	cluster, err := tryStart(t, dir)
	require.NoError(t, err)
	return cluster
}

// tryStart stops the cluster at the end of the test.
func tryStart(t *testing.T, dir string) (*embedded.Cluster, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	logger := slogtest.Make(t, &slogtest.Options{IgnoreErrors: true}).Leveled(slog.LevelInfo)
	cluster, err := embedded.Start(ctx, embedded.Options{DataDir: dir, Logger: logger})
	if err != nil {
		return nil, err
	}
	t.Cleanup(func() { _ = cluster.Stop(context.Background()) })
	return cluster, nil
}

func query(t *testing.T, url, sql string) string {
	t.Helper()
	result, err := tryQuery(url, sql)
	require.NoError(t, err, sql)
	return result
}

func tryQuery(url, sql string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	var result string
	err = conn.QueryRow(ctx, sql).Scan(&result)
	return result, err
}

// execute runs a statement without a result.
func execute(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), url)
	require.NoError(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(context.Background(), sql)
	require.NoError(t, err)
}

// postmaster reads the process id of the postmaster of a running cluster.
func postmaster(t *testing.T, dir string) int {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "postgres", "postmaster.pid"))
	require.NoError(t, err)
	line, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(line)
	require.NoError(t, err)
	return pid
}

// gone says whether a process has ended; one that nobody waited for counts as that.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil {
		return strings.Contains(string(stat), ") Z ")
	}
	return syscall.Kill(pid, 0) == syscall.ESRCH
}

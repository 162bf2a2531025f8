package deploy_test

import (
	"encoding/csv"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// balancer is a real HAProxy with the configuration of this folder.
type balancer struct {
	t       testing.TB
	address string
	socket  string // where it is asked what it thinks
}

// startBalancer starts one before these replicas, and ends it with the test.
func startBalancer(t testing.TB, replicas [3]string) *balancer {
	t.Helper()
	binary := findHAProxy()
	if binary == "" {
		missing(t, "there is no HAProxy here to try a rolling restart with; scripts/haproxy.sh installs it "+
			"(apt-get install haproxy, dnf install haproxy, brew install haproxy)")
	}
	dir, err := os.MkdirTemp("", "haproxy-") // short: the path of a socket must fit in
	require.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	b := &balancer{t: t, address: freeAddress(t), socket: filepath.Join(dir, "stats")}
	extra := filepath.Join(dir, "stats.cfg")
	require.NoError(t, os.WriteFile(extra, []byte("global\n  stats socket "+b.socket+" mode 600 level admin\n"), 0o600))
	cmd := exec.Command(binary, "-db", "-f", "haproxy.cfg", "-f", extra)
	cmd.Env = append(os.Environ(), "PREWARM_BIND="+b.address, "PREWARM_REPLICA_1="+replicas[0],
		"PREWARM_REPLICA_2="+replicas[1], "PREWARM_REPLICA_3="+replicas[2])
	log := &strings.Builder{}
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("HAProxy:\n%s", log)
		}
	})
	return b
}

func findHAProxy() string {
	for _, name := range []string{"haproxy", "/usr/sbin/haproxy", "/usr/local/sbin/haproxy"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// status is what it thinks of a replica: UP, DOWN, or on the way between them.
func (b *balancer) status(replica string) string {
	conn, err := net.Dial("unix", b.socket)
	if err != nil {
		return ""
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "show stat\n"); err != nil {
		return ""
	}
	lines, err := csv.NewReader(conn).ReadAll()
	if err != nil || len(lines) == 0 {
		return ""
	}
	column := map[string]int{}
	for i, name := range lines[0] {
		column[name] = i
	}
	for _, line := range lines[1:] {
		if line[column["svname"]] == replica {
			return line[column["status"]]
		}
	}
	return ""
}

// awaitUp waits until all replicas get requests.
func (b *balancer) awaitUp() {
	b.t.Helper()
	for _, replica := range []string{"replica-1", "replica-2", "replica-3"} {
		eventually(b.t, "HAProxy finds "+replica+" ready", func() bool { return b.status(replica) == "UP" })
	}
}

// ended is a test as missing sees it.
type ended struct {
	testing.TB
	failed, skipped string
}

func (*ended) Helper()             {}
func (e *ended) Fatal(args ...any) { e.failed = fmt.Sprint(args...) }
func (e *ended) Skip(args ...any)  { e.skipped = fmt.Sprint(args...) }

// What is missing fails in CI, and says what to install; elsewhere it is left out, and says so.
func TestMissingFailsInCI(t *testing.T) {
	for ci, fails := range map[string]bool{"true": true, "1": true, "false": false, "": false} {
		t.Setenv("CI", ci)
		e := &ended{TB: t}
		missing(e, "install haproxy")
		if fails {
			require.Contains(t, e.failed, "install haproxy", "CI=%s", ci)
			require.Empty(t, e.skipped)
		} else {
			require.Contains(t, e.skipped, "LEFT OUT: install haproxy", "CI=%s", ci)
			require.Empty(t, e.failed)
		}
	}
}

package embedded

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// pidFile is where a postmaster writes who it is, in line 1, and how it is, in line 8. pg_ctl reads it likewise.
const (
	pidFile    = "postmaster.pid"
	pidLine    = 0
	statusLine = 7
)

// postmasterPID reads who runs the cluster, or ran it; 0 if nobody.
func postmasterPID(cluster string) int {
	lines := pidFileLines(cluster)
	pid, err := strconv.Atoi(lines[pidLine])
	if err != nil || pid <= 0 {
		return 0
	}
	return pid
}

// takesConnections says whether the postmaster with that process id has started up, and recovered if need be; or follows
// another one, and can be read.
func takesConnections(cluster string, pid int) bool {
	lines := pidFileLines(cluster)
	return lines[pidLine] == strconv.Itoa(pid) && len(lines) > statusLine &&
		(lines[statusLine] == "ready" || lines[statusLine] == "standby")
}

// pidFileLines returns one empty line if there is no such file.
func pidFileLines(cluster string) []string {
	content, _ := os.ReadFile(filepath.Join(cluster, pidFile))
	lines := strings.Split(string(content), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return lines
}

func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

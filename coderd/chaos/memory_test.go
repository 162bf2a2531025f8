package chaos_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// memory is what processes have resident at most from now on, and now.
type memory map[int]int64

// watchMemory measures from now on the most memory that processes have.
func watchMemory(t *testing.T, pids ...int) memory {
	t.Helper()
	m := memory{}
	for _, pid := range pids {
		require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o600))
		m[pid] = statusOf(t, pid, "VmHWM")
	}
	return m
}

// more is how much more any of them has had since.
func (m memory) more(t *testing.T) (most int64) {
	t.Helper()
	for pid, before := range m {
		most = max(most, statusOf(t, pid, "VmHWM")-before)
	}
	return most
}

func statusOf(t *testing.T, pid int, field string) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), field+":")
	fields := strings.Fields(rest)
	require.NotEmpty(t, fields, status)
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	require.NoError(t, err)
	return kib << 10
}

// agentOf is the process of a workspace's agent.
func (in *inside) agentOf(name string) int {
	in.t.Helper()
	w, err := in.c.Workspace(in.t.Context(), name)
	require.NoError(in.t, err)
	root := filepath.Dir(in.options[0].DataDir)
	for _, p := range workspaceProcesses(in.t, root) {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if words := strings.Split(string(args), "\x00"); p.workspace == w.ID.String() && len(words) > 1 && words[1] == "agent" {
			return p.PID
		}
	}
	require.Fail(in.t, "no agent", name)
	return 0
}

package e2etest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Memory is the most bytes that processes had resident when the measurement began, by process id.
type Memory map[int]int64

// WatchMemory measures the most memory that processes have resident, from now on.
func WatchMemory(t *testing.T, pids ...int) Memory {
	t.Helper()
	m := Memory{}
	for _, pid := range pids {
		require.NoError(t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0o600))
		m[pid] = mostResident(t, pid)
	}
	return m
}

// More is how many bytes more any of the processes has had resident since.
func (m Memory) More(t *testing.T) (most int64) {
	t.Helper()
	for pid, before := range m {
		most = max(most, mostResident(t, pid)-before)
	}
	return most
}

func mostResident(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	fields := strings.Fields(rest)
	require.NotEmpty(t, fields, status)
	kib, err := strconv.ParseInt(fields[0], 10, 64)
	require.NoError(t, err)
	return kib << 10
}

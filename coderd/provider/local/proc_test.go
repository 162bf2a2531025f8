package local

import (
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Both ways of finding children say the same.
func TestChildren(t *testing.T) {
	t.Parallel()
	cmd := exec.Command("sh", "-c", "sleep 1000 & sleep 1000 & echo up; wait")
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = out.Read(make([]byte, 3))
	require.NoError(t, err)
	listed := listedChildren(cmd.Process.Pid)
	assert.Len(t, listed, 2)
	scanned, err := scannedChildren()
	require.NoError(t, err)
	assert.ElementsMatch(t, listed, scanned(cmd.Process.Pid))

	all, err := descendants(os.Getpid())
	require.NoError(t, err)
	found := map[int]process{}
	for _, p := range all {
		found[p.PID] = p
	}
	for _, pid := range append(listed, cmd.Process.Pid) {
		require.Contains(t, found, pid)
		wrong := found[pid]
		wrong.Start++
		wrong.send(9) // a process that only has the number of the one that is meant is not hit
	}
	require.Len(t, listedChildren(cmd.Process.Pid), 2)
	for _, pid := range append([]int{cmd.Process.Pid}, listed...) { // the shell first: it ends when its children have
		found[pid].send(9)
	}
	require.Error(t, cmd.Wait())
}

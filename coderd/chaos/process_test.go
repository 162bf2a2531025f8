package chaos_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// process is a process of this machine; with its start, in ticks since boot, no other one ever is it.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"`
}

// stat reads the parent, the state and the start of a process; ok is false if there is none.
func stat(pid int) (parent int, state string, start uint64, ok bool) {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, "", 0, false
	}
	// The name, in parentheses, may itself hold any of these.
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	parent, _ = strconv.Atoi(fields[1])
	start, _ = strconv.ParseUint(fields[19], 10, 64)
	return parent, fields[0], start, true
}

// alive says whether the very same process still runs.
func (p process) alive() bool {
	_, state, start, ok := stat(p.PID)
	return ok && start == p.Start && state != "Z"
}

func (p process) kill() {
	if p.alive() {
		_ = syscall.Kill(p.PID, syscall.SIGKILL)
	}
}

// descendsFrom says whether the process is ancestor, or a child of its, or a child's child.
func (p process) descendsFrom(ancestor process) bool {
	for pid := p.PID; pid > 1; {
		if processOf(pid) == ancestor {
			return true
		}
		parent, _, _, ok := stat(pid)
		if !ok {
			return true // it is gone meanwhile
		}
		pid = parent
	}
	return false
}

func processOf(pid int) process {
	_, _, start, _ := stat(pid)
	return process{pid, start}
}

// allPIDs lists the processes of the machine.
func allPIDs(t *testing.T) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	require.NoError(t, err)
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

func children(t *testing.T, of int) []int {
	t.Helper()
	var pids []int
	for _, pid := range allPIDs(t) {
		if parent, _, _, ok := stat(pid); ok && parent == of {
			pids = append(pids, pid)
		}
	}
	return pids
}

// workspaceProcess is a process that belongs to a workspace, by its environment.
type workspaceProcess struct {
	process
	workspace string // its id
}

// workspaceProcesses finds the processes of all workspaces below root, whatever the database or a state file say.
func workspaceProcesses(t *testing.T, root string) []workspaceProcess {
	t.Helper()
	var found []workspaceProcess
	for _, pid := range allPIDs(t) {
		proc := fmt.Sprintf("/proc/%d/", pid)
		environ, _ := os.ReadFile(proc + "environ") // gone by now, or a zombie
		_, id, ours := strings.Cut("\x00"+string(environ), "\x00PREWARM_WORKSPACE_ID=")
		if !ours {
			continue
		}
		id, _, _ = strings.Cut(id, "\x00")
		cmdline, _ := os.ReadFile(proc + "cmdline")
		cwd, _ := os.Readlink(proc + "cwd")
		if bytes.Contains(environ, []byte(root)) || bytes.Contains(cmdline, []byte(root)) || strings.HasPrefix(cwd, root) {
			found = append(found, workspaceProcess{processOf(pid), id})
		}
	}
	return found
}

// workspaceState is what the supervisor of a local workspace recorded.
type workspaceState struct {
	Supervisor process `json:"supervisor"`
	Main       process `json:"main"`
	Phase      string  `json:"phase"`
}

// stateOf reads the state of the local workspace whose home is home.
func stateOf(home string) (workspaceState, error) {
	var s workspaceState
	content, err := os.ReadFile(filepath.Join(filepath.Dir(home), "state.json"))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(content, &s); err != nil {
		return s, err
	}
	s.Main = s.Supervisor.child(s.Main.PID)
	return s, nil
}

// child is the child whose id is pid in its own PID namespace; the zero process if there is none.
func (p process) child(pid int) process {
	listed, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", p.PID, p.PID))
	for _, word := range strings.Fields(string(listed)) {
		status, _ := os.ReadFile("/proc/" + word + "/status")
		_, ids, _ := strings.Cut(string(status), "\nNSpid:")
		ids, _, _ = strings.Cut(ids, "\n")
		all := strings.Fields(ids)
		if outside, err := strconv.Atoi(word); err == nil && len(all) > 0 && all[len(all)-1] == strconv.Itoa(pid) {
			return processOf(outside)
		}
	}
	return process{}
}

// postmaster is the PostgreSQL that a server runs in its data directory; ok is false while there is none.
func postmaster(dataDir string) (p process, ok bool) {
	content, err := os.ReadFile(filepath.Join(dataDir, "postgres", "postmaster.pid"))
	if err != nil {
		return process{}, false
	}
	line, _, _ := strings.Cut(string(content), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil {
		return process{}, false
	}
	p = processOf(pid)
	return p, p.alive()
}

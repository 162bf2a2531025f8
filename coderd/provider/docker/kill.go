package docker

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// KillCommand is the argument with which the prewarm binary kills, inside of a container, the processes of one command:
// the next argument is their mark. A program that is agent_binary must end up in RunKill.
const KillCommand = "docker-kill"

// RunKill kills all processes that have the mark in their environment, and all that descend from them, until there is
// none that it may kill, and returns the exit status.
func RunKill(args []string) int {
	if len(args) != 1 || args[0] == "" {
		return 2
	}
	for range 1000 { // each time, what the last ones started meanwhile
		killed := false
		for pid := range marked([]byte(envExec + "=" + args[0] + "\x00")) {
			killed = syscall.Kill(pid, syscall.SIGKILL) == nil || killed
		}
		if !killed {
			return 0
		}
	}
	return 1
}

// marked are the processes, zombies apart, that have the mark or an ancestor that has it.
func marked(mark []byte) map[int]bool {
	parents, found := map[int]int{}, map[int]bool{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		content, readErr := os.ReadFile(path)
		// What is in brackets may hold brackets: the state and the parent come after the last one.
		fields := bytes.Fields(content[bytes.LastIndexByte(content, ')')+1:])
		if err != nil || readErr != nil || len(fields) < 2 || string(fields[0]) == "Z" {
			continue
		}
		parents[pid], _ = strconv.Atoi(string(fields[1]))
		environment, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
		if bytes.Contains(environment, mark) {
			found[pid] = true
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, parent := range parents {
			if found[parent] && !found[pid] {
				found[pid], grown = true, true
			}
		}
	}
	return found
}

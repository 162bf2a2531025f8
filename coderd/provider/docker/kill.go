package docker

import (
	"slices"
	"syscall"

	"github.com/prometheus/procfs"

	"github.com/prewarm-dev/prewarm/coderd/provider"
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
		for pid := range marked(provider.ExecMark + "=" + args[0]) {
			killed = syscall.Kill(pid, syscall.SIGKILL) == nil || killed
		}
		if !killed {
			return 0
		}
	}
	return 1
}

// marked are the processes, zombies apart, that have the mark or an ancestor that has it.
func marked(mark string) map[int]bool {
	parents, found := map[int]int{}, map[int]bool{}
	all, _ := procfs.AllProcs()
	for _, p := range all {
		s, err := p.Stat()
		if err != nil || s.State == "Z" {
			continue
		}
		parents[p.PID] = s.PPID
		if environment, _ := p.Environ(); slices.Contains(environment, mark) {
			found[p.PID] = true
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

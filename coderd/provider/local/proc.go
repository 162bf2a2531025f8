package local

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/prometheus/procfs"
)

// process names one process for good: a pid is used again sooner or later, but not with the same time of start.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since the machine started
}

// readStat reads /proc/<pid>/stat.
func readStat(pid int) (procfs.ProcStat, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStat{}, err
	}
	return p.Stat()
}

// self is this process as /proc has it, which may be that of another PID namespace.
func self() (process, error) {
	p, err := procfs.Self()
	if err != nil {
		return process{}, err
	}
	s, err := p.Stat()
	return named(s), err
}

func named(s procfs.ProcStat) process { return process{PID: s.PID, Start: s.Starttime} }

// zombie says that a process is dead and only waits for its parent to notice.
func zombie(s procfs.ProcStat) bool { return s.State == "Z" || s.State == "X" }

// ended says that a process is gone, and with the first of a PID namespace all that were in it: the kernel ends these
// before the last thread of that process is.
func (p process) ended() bool {
	s, err := readStat(p.PID)
	return err != nil || s.Starttime != p.Start || zombie(s) && s.NumThreads <= 1
}

// send signals a process, if it is still the one that is meant. FindProcess holds on to a process rather than to a
// number, so that none can take its place between the look and the signal.
func (p process) send(signals ...syscall.Signal) {
	if p.PID <= 1 {
		return
	}
	h, err := os.FindProcess(p.PID)
	if err != nil {
		return
	}
	defer h.Release() //nolint:errcheck // closes a descriptor
	if s, err := readStat(p.PID); err != nil || s.Starttime != p.Start {
		return
	}
	for _, sig := range signals {
		_ = h.Signal(sig)
	}
}

// descendants finds all that come from a process, directly or not.
func descendants(ancestor int) ([]process, error) {
	children := listedChildren
	if _, err := os.Stat("/proc/thread-self/children"); err != nil { // a kernel built without it
		var err error
		if children, err = scannedChildren(); err != nil {
			return nil, err
		}
	}
	var found []process
	for next := []int{ancestor}; len(next) > 0; next = next[1:] {
		for _, pid := range children(next[0]) {
			if s, err := readStat(pid); err == nil && !zombie(s) {
				found = append(found, named(s))
				next = append(next, pid)
			}
		}
	}
	return found, nil
}

// listedChildren asks the kernel, which is quick however many processes the machine has.
func listedChildren(pid int) []int {
	tasks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	var children []int
	for _, t := range tasks {
		content, _ := os.ReadFile(t)
		for _, word := range strings.Fields(string(content)) {
			if child, err := strconv.Atoi(word); err == nil {
				children = append(children, child)
			}
		}
	}
	return children
}

// scannedChildren asks every process for its parent.
func scannedChildren() (func(pid int) []int, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, p := range all {
		if s, err := p.Stat(); err == nil {
			children[s.PPID] = append(children[s.PPID], p.PID)
		}
	}
	return func(pid int) []int { return children[pid] }, nil
}

// bootID changes with each start of the machine; times of start mean something only within one.
var bootID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
})

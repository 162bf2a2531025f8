package local

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/xerrors"
)

// process names one process for good: a pid is used again sooner or later, but not with the same time of start.
type process struct {
	PID   int    `json:"pid"`
	Start uint64 `json:"start"` // clock ticks since the machine started
}

// procStat is what is used of /proc/<pid>/stat.
type procStat struct {
	process
	parent  int
	threads int
	zombie  bool
	kernel  bool // a thread of the kernel
}

func readStat(pid int) (procStat, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, err
	}
	return parseStat(pid, content)
}

// self is this process as /proc has it, which may be that of another PID namespace.
func self() (process, error) {
	content, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return process{}, err
	}
	number, _, _ := strings.Cut(string(content), " ")
	pid, err := strconv.Atoi(number)
	if err != nil {
		return process{}, err
	}
	s, err := parseStat(pid, content)
	return s.process, err
}

func parseStat(pid int, content []byte) (s procStat, err error) {
	// The second field is the program's name in parentheses, and may hold anything; the third follows the last ')'.
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 20 {
		return procStat{}, xerrors.Errorf("read stat of process %d: %d fields", pid, len(fields))
	}
	s = procStat{process: process{PID: pid}, zombie: fields[0] == "Z" || fields[0] == "X"}
	s.parent, _ = strconv.Atoi(fields[1])
	s.threads, _ = strconv.Atoi(fields[17])
	flags, _ := strconv.ParseUint(fields[6], 10, 64)
	s.kernel = flags&0x00200000 != 0 // PF_KTHREAD
	s.Start, err = strconv.ParseUint(fields[19], 10, 64)
	return s, err
}

// ended says that a process is gone, and with the first of a PID namespace all that were in it: the kernel ends these
// before the last thread of that process is.
func (p process) ended() bool {
	s, err := readStat(p.PID)
	return err != nil || s.Start != p.Start || s.zombie && s.threads <= 1
}

// pids lists all processes there are.
func pids() ([]int, error) {
	d, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, n := range names {
		if pid, err := strconv.Atoi(n); err == nil {
			all = append(all, pid)
		}
	}
	return all, nil
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
	if s, err := readStat(p.PID); err != nil || s.Start != p.Start {
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
			if s, err := readStat(pid); err == nil && !s.zombie {
				found = append(found, s.process)
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
	all, err := pids()
	if err != nil {
		return nil, err
	}
	children := map[int][]int{}
	for _, pid := range all {
		if s, err := readStat(pid); err == nil {
			children[s.parent] = append(children[s.parent], pid)
		}
	}
	return func(pid int) []int { return children[pid] }, nil
}

// bootID changes with each start of the machine; times of start mean something only within one.
var bootID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
})

package local

import (
	"bytes"
	"os"
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
	session int
	zombie  bool
}

func readStat(pid int) (procStat, error) {
	content, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return procStat{}, err
	}
	// The second field is the program's name in parentheses, and may hold anything; the third follows the last ')'.
	fields := strings.Fields(string(content[bytes.LastIndexByte(content, ')')+1:]))
	if len(fields) < 20 {
		return procStat{}, xerrors.Errorf("read stat of process %d: %d fields", pid, len(fields))
	}
	s := procStat{process: process{PID: pid}, zombie: fields[0] == "Z" || fields[0] == "X"}
	s.parent, _ = strconv.Atoi(fields[1])
	s.session, _ = strconv.Atoi(fields[3])
	s.Start, err = strconv.ParseUint(fields[19], 10, 64)
	return s, err
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

// send signals a process if it is still the one that is meant. FindProcess holds on to a process rather than to a
// number, so that none can take its place between the look and the signal.
func (p process) send(sig syscall.Signal) {
	if p.PID <= 1 {
		return
	}
	h, err := os.FindProcess(p.PID)
	if err != nil {
		return
	}
	defer h.Release() //nolint:errcheck // closes a descriptor
	if s, err := readStat(p.PID); err == nil && s.Start == p.Start {
		_ = h.Signal(sig)
	}
}

// descendants finds all that come from a process, directly or not.
func descendants(ancestor int) ([]process, error) {
	all, err := pids()
	if err != nil {
		return nil, err
	}
	children := map[int][]process{}
	for _, pid := range all {
		if s, err := readStat(pid); err == nil && !s.zombie {
			children[s.parent] = append(children[s.parent], s.process)
		}
	}
	var found []process
	for next := []int{ancestor}; len(next) > 0; next = next[1:] {
		for _, c := range children[next[0]] {
			found = append(found, c)
			next = append(next, c.PID)
		}
	}
	return found, nil
}

// bootID changes with each start of the machine; times of start mean something only within one.
var bootID = sync.OnceValue(func() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
})

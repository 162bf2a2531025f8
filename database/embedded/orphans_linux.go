package embedded

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// orphans finds the processes called postgres that work in the cluster's folder. A root without the right to look at
// other users' processes (as in most containers) sees at least the postmaster, by what postmaster.pid says.
func orphans(cluster string) []int {
	folder, err := os.Stat(cluster)
	if err != nil {
		return nil
	}
	postmaster := postmasterPID(cluster)
	entries, err := filepath.Glob("/proc/[0-9]*/comm")
	if err != nil {
		return nil
	}
	var found []int
	for _, entry := range entries {
		if comm, err := os.ReadFile(entry); err != nil || strings.TrimSpace(string(comm)) != "postgres" {
			continue
		}
		proc := filepath.Dir(entry)
		pid, err := strconv.Atoi(filepath.Base(proc))
		if err != nil || isZombie(proc) {
			continue
		}
		cwd, err := os.Stat(filepath.Join(proc, "cwd"))
		switch {
		case err == nil && os.SameFile(cwd, folder):
			found = append(found, pid)
		case err != nil && pid == postmaster && sameOwner(proc, folder):
			found = append(found, pid)
		}
	}
	return found
}

// isZombie says whether the process is dead and only waits for its parent to notice.
func isZombie(proc string) bool {
	stat, err := os.ReadFile(filepath.Join(proc, "stat"))
	if err != nil {
		return true
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X")
}

func sameOwner(proc string, folder os.FileInfo) bool {
	info, err := os.Stat(proc)
	return err == nil && info.Sys().(*syscall.Stat_t).Uid == folder.Sys().(*syscall.Stat_t).Uid
}

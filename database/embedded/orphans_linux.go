package embedded

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/prometheus/procfs"
)

// orphans finds the processes called postgres that work in the cluster's folder. A root without the right to look at
// other users' processes (as in most containers) sees at least the postmaster, by what postmaster.pid says.
func orphans(cluster string) []int {
	folder, err := os.Stat(cluster)
	if err != nil {
		return nil
	}
	postmaster := postmasterPID(cluster)
	all, err := procfs.AllProcs()
	if err != nil {
		return nil
	}
	var found []int
	for _, p := range all {
		// One that is dead only waits for its parent to notice.
		if s, err := p.Stat(); err != nil || s.Comm != "postgres" || s.State == "Z" || s.State == "X" {
			continue
		}
		proc := filepath.Join("/proc", strconv.Itoa(p.PID))
		cwd, err := os.Stat(filepath.Join(proc, "cwd"))
		switch {
		case err == nil && os.SameFile(cwd, folder):
			found = append(found, p.PID)
		case err != nil && p.PID == postmaster && sameOwner(proc, folder):
			found = append(found, p.PID)
		}
	}
	return found
}

func sameOwner(proc string, folder os.FileInfo) bool {
	info, err := os.Stat(proc)
	return err == nil && info.Sys().(*syscall.Stat_t).Uid == folder.Sys().(*syscall.Stat_t).Uid
}

package tree

import (
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Leftovers: a process that is killed while it writes a file leaves what it has written, under a name of its own. The next process
// that writes in that directory removes it. Who writes holds a lock of the file, which the system ends with the process. A file is
// without its lock for a moment after it was made, so young ones stay.

const (
	// temporary begins the name of a file that is to replace another one.
	temporary = ".prewarm-"
	// leftAfter is when a file without a lock was left behind.
	leftAfter = time.Minute
	// mostSwept is how many directories are remembered, so that each is looked through once.
	mostSwept = 4096
)

var swept = struct {
	mu  sync.Mutex
	all map[[2]uint64]struct{} // by device and inode
}{all: map[[2]uint64]struct{}{}}

// hold locks a file that is being written, where its file system can.
func hold(f *os.File) { _ = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// sweep removes what was left in a directory, the first time that this process writes there; again where some was young then. A directory
// that has the number of one which was removed meanwhile is taken for that one.
func sweep(root *os.Root, dir string) {
	info, err := root.Stat(dir)
	if err != nil {
		return
	}
	id, isFirst := first(info)
	if !isFirst {
		return
	}
	d, err := root.Open(dir)
	if err != nil {
		return
	}
	defer d.Close()
	for {
		names, err := d.Readdirnames(batch)
		for _, name := range names {
			if strings.HasPrefix(name, temporary) && !removeLeft(root, path.Join(dir, name)) {
				swept.mu.Lock()
				delete(swept.all, id)
				swept.mu.Unlock()
			}
		}
		if err != nil {
			return
		}
	}
}

func first(dir os.FileInfo) (id [2]uint64, is bool) {
	stat, ok := dir.Sys().(*syscall.Stat_t)
	if !ok {
		return id, false
	}
	id = [2]uint64{uint64(stat.Dev), stat.Ino} //nolint:unconvert // the types differ by system
	swept.mu.Lock()
	defer swept.mu.Unlock()
	if _, known := swept.all[id]; known {
		return id, false
	}
	if len(swept.all) >= mostSwept {
		clear(swept.all)
	}
	swept.all[id] = struct{}{}
	return id, true
}

// removeLeft removes a file that is old, and that no process holds. It is false for one that may be left behind, but is young.
func removeLeft(root *os.Root, name string) bool {
	if len(path.Base(name)) != len(temporary)+26 { // as rand.Text makes them
		return true
	}
	info, err := root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() {
		return true
	}
	if time.Since(info.ModTime()) < leftAfter { //nolint:forbidigo // the system says by its own clock when a file was written
		return false
	}
	f, is, err := Open(root.OpenFile, name)
	if err != nil {
		return true
	}
	defer f.Close()
	if os.SameFile(is, info) && syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		_ = root.Remove(name)
	}
	return true
}

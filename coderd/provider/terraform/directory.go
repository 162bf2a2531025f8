package terraform

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/xerrors"
)

const (
	// runPrefix begins the names of runs' directories, and makingPrefix those that are not locked yet.
	runPrefix    = "prewarm-run-"
	makingPrefix = "prewarm-making-"
)

// makeDirectory makes one below root, for this process's user alone. It is locked until lock is closed, which the system does
// with the process.
func makeDirectory(root string) (dir string, lock *os.File, err error) {
	for range 50 {
		dir, lock, err = tryDirectory(root)
		// A server that starts at this moment can take it for one that was left, as long as it is not locked.
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.EWOULDBLOCK) {
			break
		}
	}
	return dir, lock, err
}

func tryDirectory(root string) (dir string, lock *os.File, err error) {
	making, err := os.MkdirTemp(root, makingPrefix+"*") // 0700
	if err != nil {
		return "", nil, err
	}
	dir = filepath.Join(root, runPrefix+strings.TrimPrefix(filepath.Base(making), makingPrefix))
	if lock, err = openDirectory(making); err == nil {
		if err = hold(lock); err == nil {
			err = os.Rename(making, dir)
		}
		if err != nil {
			_ = lock.Close()
		}
	}
	if err != nil {
		_ = os.Remove(making)
		return "", nil, err
	}
	return dir, lock, nil
}

// openDirectory opens a directory, and neither waits for anything nor follows a link.
func openDirectory(name string) (*os.File, error) {
	return os.OpenFile(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
}

// hold locks a directory. The error says that another process holds it, or another descriptor of this one.
func hold(dir *os.File) error { return syscall.Flock(int(dir.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

// sweep removes what runs of servers that were killed have left below root, and directories that were just being made.
func sweep(root string) error {
	var names []string
	for _, prefix := range []string{runPrefix, makingPrefix} {
		found, err := filepath.Glob(filepath.Join(root, prefix+"*"))
		if err != nil {
			return xerrors.Errorf("list directories of runs: %w", err)
		}
		names = append(names, found...)
	}
	for _, name := range names {
		dir, err := openDirectory(name)
		if err != nil {
			continue // its run has ended, or it is no directory
		}
		if info, statErr := dir.Stat(); statErr == nil && ofRun(info) && hold(dir) == nil {
			err = os.RemoveAll(name)
			if base := filepath.Base(name); strings.HasPrefix(base, runPrefix) { // one that is just being made has no control group yet
				dropGroup(base)
			}
		}
		_ = dir.Close()
		if err != nil {
			return xerrors.Errorf("remove what a run has left: %w", err)
		}
	}
	return nil
}

// ofRun says whether a run can have made it: anybody may make directories where temporary files are.
func ofRun(info os.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	uid := int(stat.Uid)
	return uid == os.Geteuid() || os.Geteuid() == 0 && uid >= firstUID && uid <= lastUID
}

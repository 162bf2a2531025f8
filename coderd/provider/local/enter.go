package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"
)

// What a supervisor is told beside the directory of its workspace: to enter it, or only to try whether it could.
const (
	enterArgument = "enter"
	probeArgument = "probe"
)

// enter is the first that a supervisor does in its new namespaces: it arranges what the workspace's processes see of the
// file system, gives up the right to do so, and becomes the supervisor proper.
//
// Hidden directories are empty, but for the workspace in its place. /proc shows the processes of the workspace alone.
func enter(d dir, hidden []string) error {
	me, err := self() // as others know it: /proc is still theirs
	if err != nil {
		return xerrors.Errorf("enter workspace: read own start: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return xerrors.Errorf("enter workspace: keep mounts to itself: %w", err)
	}
	it, err := unix.Open(string(d), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return xerrors.Errorf("enter workspace: open %s: %w", d, err)
	}
	const plain = unix.MS_NOSUID | unix.MS_NODEV
	for _, path := range hidden {
		if err := unix.Mount("prewarm", path, "tmpfs", plain, "mode=0755,size=64k"); err != nil {
			return xerrors.Errorf("enter workspace: hide %s: %w", path, err)
		}
	}
	if err := os.MkdirAll(string(d), 0o755); err != nil { //nolint:gosec // for the workspace's user to pass through
		return xerrors.Errorf("enter workspace: %w", err)
	}
	if err := unix.Mount("/proc/self/fd/"+strconv.Itoa(it), string(d), "", unix.MS_BIND, ""); err != nil {
		return xerrors.Errorf("enter workspace: put %s in its place: %w", d, err)
	}
	for _, path := range hidden {
		if err := unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY|plain, ""); err != nil {
			return xerrors.Errorf("enter workspace: keep %s empty: %w", path, err)
		}
	}
	if err := nameUser(d); err != nil {
		return xerrors.Errorf("enter workspace: %w", err)
	}
	if err := mountProc(); err != nil {
		return xerrors.Errorf("enter workspace: %w", err)
	}
	if err := os.Chdir(string(d)); err != nil {
		return xerrors.Errorf("enter workspace: %w", err)
	}
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return xerrors.Errorf("enter workspace: give up capabilities: %w", err)
	}
	inside, err := json.Marshal(me)
	if err != nil {
		return err
	}
	args := append([]string{}, os.Args[:len(os.Args)-len(hidden)-1]...)
	err = syscall.Exec("/proc/self/exe", append(args, string(inside)), os.Environ())
	return xerrors.Errorf("enter workspace: start supervisor: %w", err)
}

// userName is what the workspace's own user is called inside.
const userName = "workspace"

// nameUser gives the workspace's own user a name: without one ssh refuses to run, git commits have no author, and a shell
// says "I have no name!". What the machine's files say follows ours.
func nameUser(d dir) error {
	w, err := load(d)
	if err != nil {
		return xerrors.Errorf("load workspace: %w", err)
	}
	if w.UID == 0 {
		return nil
	}
	for path, line := range map[string]string{
		"/etc/passwd": fmt.Sprintf("%s:x:%d:%d::%s:%s\n", userName, w.UID, w.UID, d.home(), loginShell()),
		"/etc/group":  fmt.Sprintf("%s:x:%d:\n", userName, w.UID),
	} {
		machine, err := os.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // a machine without names
		}
		if err != nil {
			return xerrors.Errorf("name user: %w", err)
		}
		file := filepath.Join(string(d), filepath.Base(path))
		if err := os.WriteFile(file, append([]byte(line), machine...), 0o600); err != nil {
			return xerrors.Errorf("name user: %w", err)
		}
		if err := os.Chmod(file, 0o644); err != nil { //nolint:gosec // all may read it, whatever the umask
			return xerrors.Errorf("name user: %w", err)
		}
		if err := unix.Mount(file, path, "", unix.MS_BIND, ""); err != nil {
			return xerrors.Errorf("name user in %s: %w", path, err)
		}
	}
	return nil
}

func loginShell() string {
	const bash = "/bin/bash"
	if _, err := os.Stat(bash); err == nil {
		return bash
	}
	return "/bin/sh"
}

func mountProc() error {
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return xerrors.Errorf("mount /proc: %w", err)
	}
	return nil
}

// tryNamespaces does what enter needs the kernel's leave for.
func tryNamespaces() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return xerrors.Errorf("keep mounts to itself: %w", err)
	}
	if err := unix.Mount("prewarm", os.TempDir(), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
		return xerrors.Errorf("hide %s: %w", os.TempDir(), err)
	}
	return mountProc()
}

package local

import (
	"encoding/json"
	"os"
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

package local

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// probeTimeout is for what takes milliseconds.
const probeTimeout = 30 * time.Second

// Isolated says whether all that runs in a workspace ends with it: nil, or why that cannot be promised on this machine.
func (p *Provider) Isolated() error {
	p.asked.Do(func() { p.isolated = p.tryIsolation() })
	return p.isolated
}

// tryIsolation asks the kernel, by starting a process in namespaces of its own.
func (p *Provider) tryIsolation() error {
	cmd := exec.Command(p.executable, supervisorCommand, probeArgument) //nolint:noctx // its answer is for all who ask later
	cmd.Env = []string{"PATH=" + defaultPath}
	cmd.SysProcAttr = inNamespaces()
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Start()
	if err == nil {
		kill := p.clock.AfterFunc(probeTimeout, func() { _ = cmd.Process.Kill() }, "local", "probe")
		err = cmd.Wait()
		kill.Stop()
	}
	if err == nil {
		return nil
	}
	if said.Len() > 0 {
		err = xerrors.New(string(bytes.TrimSpace(said.Bytes())))
	}
	return xerrors.Errorf("the kernel refuses the namespaces in which a workspace's processes would be kept: %w", err)
}

// inNamespaces starts a process as the first of a PID namespace, with a mount namespace. Who is not root needs a user
// namespace for that, in which the server's user stays who it is; CAP_SYS_ADMIN is given up before a workspace runs.
func inNamespaces() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setsid: true, Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS}
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		a.Cloneflags |= unix.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{ContainerID: uid, HostID: uid, Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{ContainerID: gid, HostID: gid, Size: 1}}
		a.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN}
	}
	return a
}

// mayRun refuses to run anything of a workspace as root, unless the owner of the provider allows that.
func (p *Provider) mayRun(w workspace) error {
	if os.Geteuid() != 0 || p.allowRoot {
		return nil
	}
	if err := p.Isolated(); err != nil {
		return provider.Permanent(xerrors.Errorf("the server runs as root and cannot run workspaces as other users: %w. Run the "+
			"server as another user, or set allow_root: true in the provider's config if workspaces may be root", err))
	}
	if w.UID == 0 {
		return provider.Permanent(xerrors.New("it was made to run as root, by an earlier release or with allow_root: true: " +
			"release it and claim another"))
	}
	return nil
}

// hidden are the directories that the processes of a workspace find empty, but for the workspace itself: those of the
// server, and the first on the way to the root that other users may not enter, so that the workspace's user gets there.
func (p *Provider) hidden() ([]string, error) {
	root, err := filepath.EvalSymlinks(p.root)
	if err != nil {
		return nil, xerrors.Errorf("look for directories to hide: %w", err)
	}
	all := []string{root}
	for _, path := range p.private {
		if path, err := filepath.EvalSymlinks(path); err == nil && path != "/" {
			all = append(all, path)
		}
	}
	if os.Geteuid() == 0 {
		for at := "/"; at != root; {
			rest := strings.TrimPrefix(strings.TrimPrefix(root, at), "/")
			first, _, _ := strings.Cut(rest, "/")
			at = filepath.Join(at, first)
			if info, err := os.Stat(at); err == nil && info.Mode().Perm()&0o001 == 0 {
				all = append(all, at)
				break
			}
		}
	}
	slices.Sort(all)
	var kept []string
	for _, path := range slices.Compact(all) {
		// In order, what is above comes before: it is the last that was kept, if it is.
		if n := len(kept); n == 0 || !strings.HasPrefix(path, kept[n-1]+"/") {
			kept = append(kept, path)
		}
	}
	return kept, nil
}

// Uids are the user ids that workspaces run as where the server is root.
type Uids struct{ First, Last uint32 }

// DefaultUids is a range that Linux distributions and systemd leave alone: 1879048192 to 2147483647 is unused by both.
var DefaultUids = Uids{1_900_000_000, 1_999_999_999}

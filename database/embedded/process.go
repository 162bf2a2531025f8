package embedded

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"golang.org/x/xerrors"
)

// inherited is the path of the first of exec.Cmd.ExtraFiles, as the child sees it.
const inherited = "/proc/self/fd/3"

// program is how the programs of one installation are run on one folder.
type program struct {
	binaries Binaries
	account  account
}

// process is a running child.
type process struct {
	*os.Process
	exited chan struct{} // closed when it is gone
	err    error         // how it ended; read after exited
}

// folderPath returns the path by which the child finds dir. A user that cannot walk down to it gets the open folder
// instead, as a path of /proc; opened is then for exec.Cmd.ExtraFiles.
func (p program) folderPath(dir string) (path string, opened *os.File, err error) {
	if p.account.reaches(dir) {
		return dir, nil, nil
	}
	if runtime.GOOS != "linux" {
		return "", nil, xerrors.Errorf("user %s, who shall run PostgreSQL, cannot reach %s: "+
			"allow it to search the folders above (chmod o+x), or choose another directory with --data-dir",
			p.account.name, dir)
	}
	opened, err = os.Open(dir)
	if err != nil {
		return "", nil, xerrors.Errorf("open cluster: %w", err)
	}
	return inherited, opened, nil
}

// start runs a program on dir, with the arguments that args makes of the path to it. The child gets the signal dying
// when this process dies, and writes into output.
func (p program) start(
	name, dir string, args func(path string) []string, dying syscall.Signal, configure func(*exec.Cmd),
) (*process, error) {
	binary := filepath.Join(p.binaries.Dir, name)
	if !p.account.reaches(binary) {
		return nil, xerrors.Errorf("user %s, who shall run PostgreSQL, cannot reach its binaries in %s: "+
			"install them elsewhere and set %s", p.account.name, p.binaries.Dir, BinEnv)
	}
	path, opened, err := p.folderPath(dir)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(binary, args(path)...) //nolint:noctx // it outlives the call; Stop ends it
	cmd.Dir = "/"                              // the folder we are in may be out of reach for the account
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Credential: p.account.credential(),
		Setpgid:    true, // a Ctrl-C is for the server, which then stops PostgreSQL last
	}
	dieWithParent(cmd.SysProcAttr, dying)
	if opened != nil {
		defer opened.Close()
		cmd.ExtraFiles = []*os.File{opened}
	}
	configure(cmd)

	started := make(chan error)
	child := &process{exited: make(chan struct{})}
	go func() {
		// The kernel takes the death of the thread that forked for that of the process. A locked thread is used by
		// nobody else and ends with this goroutine, which outlives the child.
		runtime.LockOSThread()
		err := cmd.Start()
		child.Process = cmd.Process
		started <- err
		if err != nil {
			return
		}
		child.err = cmd.Wait()
		close(child.exited)
	}()
	if err := <-started; err != nil {
		return nil, xerrors.Errorf("start %s: %w", name, err)
	}
	return child, nil
}

// wait waits for the child, and kills it when ctx ends.
func (c *process) wait(ctx context.Context) error {
	select {
	case <-c.exited:
		return c.err
	case <-ctx.Done():
		_ = c.Kill() // it may be gone this moment
		<-c.exited
		return ctx.Err()
	}
}

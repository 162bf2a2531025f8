package terraform

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/modules"
	"github.com/prewarm-dev/prewarm/coderd/provider"
)

const (
	// termGrace is how long Terraform may take to store its state once it is told to end. It is killed then.
	termGrace = 2 * time.Second
	// pipeGrace is how long output is waited for that something else than Terraform holds open.
	pipeGrace = 500 * time.Millisecond
	keptError = 8 << 10 // bytes of the output, for the error
	// lockTimeout is how long a plan waits for the lock of its state, which no other process should have.
	lockTimeout = "10s"
)

// crashes are what Terraform says of a plugin that died, by what it notices first. It stores a state then, and what the plugin was making
// is not in it.
var crashes = []string{"Plugin did not respond", "Request cancelled", "plugin crashed!"}

// CutOffError is that of an apply after which a resource may exist that no state names: it did not come to its end by itself, its last
// state was not stored, or a plugin died.
type CutOffError struct{ Cause error }

func (e *CutOffError) Error() string { return "the apply was cut off: " + e.Cause.Error() }
func (e *CutOffError) Unwrap() error { return e.Cause }

// Run is one attempt's: its commands run one after the other.
type Run struct {
	runner  *Runner
	dir     string
	lock    *os.File // of dir
	uid     int      // 0: the server's
	group   group    // nil: nothing limits its memory
	backend Backend
	locked  bool // the module has a dependency lock file
	env     map[string]string
	secrets []string // of env
}

func (r *Run) module() string { return filepath.Join(r.dir, "module") }
func (r *Run) home() string   { return filepath.Join(r.dir, "home") }
func (r *Run) temp() string   { return filepath.Join(r.dir, "tmp") }

// settings is Terraform's own configuration for the run, where it has one.
func (r *Run) settings() string { return filepath.Join(r.home(), "terraformrc") }
func (r *Run) planFile() string { return filepath.Join(r.dir, "plan") }

// Close removes the directory of the run.
func (r *Run) Close() error {
	err := os.RemoveAll(r.dir)
	_ = r.lock.Close()
	if r.group != nil {
		err = cmp.Or(err, r.group.remove())
		r.group = nil
	}
	if err != nil {
		return xerrors.Errorf("remove directory of run: %w", err)
	}
	return nil
}

// Init prepares the module's directory. A dependency lock file of the module is kept to.
func (r *Run) Init(ctx context.Context, output io.Writer, secrets ...string) error {
	args := []string{"init", "-input=false", "-no-color"}
	if r.locked {
		args = append(args, "-lockfile=readonly")
	}
	_, err := r.do(ctx, nil, output, secrets, args...)
	return err
}

// Plan plans what Apply does, from what the state has, and returns what has to be known of it before.
func (r *Run) Plan(ctx context.Context, output io.Writer, secrets ...string) (p Planned, err error) {
	err = r.plan(ctx, output, secrets, func(from io.Reader) (err error) {
		p, err = planned(from)
		return err
	}, "-lock-timeout="+lockTimeout)
	return p, err
}

// Drift are the addresses of resources that are not as the state says, and that an apply would mend. It locks nothing and stores nothing.
func (r *Run) Drift(ctx context.Context, output io.Writer) (found []string, err error) {
	err = r.plan(ctx, output, nil, func(from io.Reader) (err error) {
		found, err = drifted(from)
		return err
	}, "-lock=false")
	return found, err
}

// plan plans into a file, and reads what is in it.
func (r *Run) plan(ctx context.Context, output io.Writer, secrets []string, read func(io.Reader) error, args ...string) error {
	args = append([]string{"plan", "-input=false", "-no-color", "-out=" + r.planFile()}, args...)
	if _, err := r.do(ctx, nil, output, secrets, args...); err != nil {
		return err
	}
	reader, shown := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := read(reader)
		_, _ = io.Copy(io.Discard, reader) // after an error, so that the command ends
		done <- err
	}()
	_, err := r.do(ctx, shown, output, secrets, "show", "-json", "-no-color", r.planFile())
	_ = shown.Close()
	return cmp.Or(err, <-done)
}

// Apply makes what was planned. The error may be a *CutOffError.
func (r *Run) Apply(ctx context.Context, output io.Writer, secrets ...string) error {
	whole, err := r.do(ctx, nil, output, secrets, "apply", "-input=false", "-no-color", r.planFile())
	if err == nil {
		return nil
	}
	_, stat := os.Lstat(filepath.Join(r.module(), modules.ErroredFile))
	crashed := slices.ContainsFunc(crashes, func(words string) bool { return strings.Contains(err.Error(), words) })
	if !whole || crashed || !errors.Is(stat, fs.ErrNotExist) {
		return &CutOffError{err}
	}
	return err
}

// Destroy removes all that the state has.
func (r *Run) Destroy(ctx context.Context, output io.Writer, secrets ...string) error {
	_, err := r.do(ctx, nil, output, secrets, "destroy", "-input=false", "-no-color", "-auto-approve")
	return err
}

// do runs one command to its end, or until ctx ends. Then Terraform has termGrace to store what it has. As root nothing that
// the command started is left when do returns; else nothing of its process group is. What it writes goes to output, up to
// maxOutput and without the secrets; what it answers goes to stdout as it is, where one is given. Its end is part of the error.
// whole is whether it came to its end by itself, or did not begin.
func (r *Run) do(ctx context.Context, stdout, output io.Writer, secrets []string, args ...string) (whole bool, err error) {
	if err := ctx.Err(); err != nil {
		return true, err
	}
	said := &provider.Tail{Limit: keptError}
	masked := newMask(output, said, slices.Concat(secrets, r.secrets, []string{r.backend.Token}))
	cmd := exec.Command(r.runner.Program, args...) //nolint:noctx // its group is ended below
	cmd.Dir, cmd.Env, cmd.SysProcAttr = r.module(), r.environment(), attributes(r.uid)
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = masked, masked, pipeGrace
	if stdout != nil {
		cmd.Stdout = stdout
	}
	// The server's death takes it along, by a signal that is about the thread that starts it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	kills := r.kills()
	if err := r.start(cmd); err != nil {
		return true, xerrors.Errorf("start %s: %w", filepath.Base(r.runner.Program), err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		awaitExit(cmd.Process.Pid)
	}()
	select {
	case <-exited:
	case <-ctx.Done():
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := r.runner.Clock.NewTimer(termGrace, "terraform", "terminate")
		select {
		case <-exited:
		case <-timer.C:
		}
		timer.Stop()
	}
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its leader is not reaped yet, so that the group is its own
	err = cmd.Wait()
	masked.end()
	code := cmd.ProcessState.ExitCode()
	whole = code == 0 || code == 1 // it ends with others where it crashes, and with none where it is killed
	switch {
	case ctx.Err() != nil:
		return whole, ctx.Err()
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		return whole, nil
	}
	err = xerrors.Errorf("%s %s: %w", filepath.Base(r.runner.Program), args[0], errors.New(cmp.Or(reason(said.String()), err.Error())))
	if r.kills() > kills {
		err = xerrors.Errorf("it used more memory than the %s of memory.run in the provider's configuration: %w", size(r.runner.Memory.Run), err)
	}
	return whole, err
}

// reason is what Terraform says of its errors, on one line; where it names none, all that it said.
func reason(said string) string {
	if at := strings.Index(said, "Error: "); at >= 0 {
		said = said[at:]
	}
	var line string
	for paragraph := range strings.SplitSeq(said, "\n\n") {
		words := strings.Join(strings.Fields(paragraph), " ")
		switch {
		case line == "" || words == "":
			line += words
		case strings.HasSuffix(line, ".") || strings.HasSuffix(line, ":"):
			line += " " + words
		default: // it is a headline
			line += ": " + words
		}
	}
	return line
}

// environment is all that the command has of one.
func (r *Run) environment() []string {
	b := r.backend
	env := append(trust(b.CA), clean(r.home(), r.temp())...)
	if r.runner.Mirror != "" {
		env = append(env, "TF_CLI_CONFIG_FILE="+r.settings())
	}
	for _, name := range slices.Sorted(maps.Keys(r.env)) {
		env = append(env, name+"="+r.env[name])
	}
	if b.URL == "" {
		return env
	}
	return append(env,
		"TF_HTTP_ADDRESS="+b.URL, "TF_HTTP_USERNAME="+b.WorkspaceID, "TF_HTTP_PASSWORD="+b.Token,
		"TF_HTTP_LOCK_ADDRESS="+b.URL+"/lock", "TF_HTTP_LOCK_METHOD=POST",
		"TF_HTTP_UNLOCK_ADDRESS="+b.URL+"/lock", "TF_HTTP_UNLOCK_METHOD=DELETE",
	)
}

// clean is an environment that has nothing of the server's.
func clean(home, temp string) []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + home, "TMPDIR=" + temp, "LANG=C.UTF-8",
		"CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_INPUT=0",
	}
}

func trust(ca string) []string {
	if ca == "" {
		return nil
	}
	return []string{"TF_HTTP_CLIENT_CA_CERTIFICATE_PEM=" + ca}
}

// attributes are those of a process with that user id, or with the server's for 0.
func attributes(uid int) *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if uid != 0 {
		a.Cloneflags = unix.CLONE_NEWPID // with its first process ends all that is in it
		a.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}
	}
	return a
}

// awaitExit waits for the end of a child and leaves it to be reaped.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

package processes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coder/quartz"
	"github.com/creack/pty"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// outputDelay is how long the output of a command is waited for after its end, while nothing comes: what it left in the
// background may keep it open.
const outputDelay = time.Second

// spec is a command to run.
type spec struct {
	command    []string
	env        []string // all of it
	dir        string
	user       string // empty: the agent's
	tty        bool
	rows, cols uint16
	input      bool // it gets one
}

// sinks are where the output of a command goes; with a terminal all of it is stdout.
type sinks struct{ stdout, stderr io.Writer }

// running is a command that runs, the leader of a process group of its own.
type running struct {
	cmd      *exec.Cmd
	clock    quartz.Clock
	input    io.WriteCloser // nil: none
	terminal *os.File       // nil: none
	outputs  []*os.File
	copied   chan struct{}
	moves    func() (progress int64, stuck bool) // of the output

	mu     sync.Mutex
	ending bool // it was asked to end
	ended  bool
	closed bool // its streams are
}

// run starts a command. moves says whether its output does.
func run(clock quartz.Clock, s spec, to sinks, moves func() (int64, bool)) (*running, error) {
	path, err := lookUp(s)
	if err != nil {
		return nil, err
	}
	r := &running{
		cmd: &exec.Cmd{Path: path, Args: s.command, Env: s.env, Dir: s.dir}, clock: clock, copied: make(chan struct{}), moves: moves,
	}
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: !s.tty, Setsid: s.tty, Setctty: s.tty}
	if err := r.become(s.user); err != nil {
		return nil, err
	}
	var theirs []*os.File
	open := r.pipes
	if s.tty {
		open = r.pty
	}
	theirs, err = open(s)
	if err == nil {
		err = r.cmd.Start()
	}
	for _, f := range theirs {
		_ = f.Close()
	}
	if err != nil {
		r.close()
		return nil, err
	}
	go r.copy(to)
	return r, nil
}

// lookUp finds the program as the command's own environment says.
func lookUp(s spec) (string, error) {
	name := s.command[0]
	if strings.Contains(name, "/") {
		if !filepath.IsAbs(name) {
			name = filepath.Join(s.dir, name)
		}
		return name, nil
	}
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, kv := range s.env {
		if value, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = value
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(s.dir, dir)
		}
		candidate := filepath.Join(dir, name)
		if info, err := os.Stat(candidate); err == nil && !info.IsDir() && info.Mode()&0o111 != 0 {
			return candidate, nil
		}
	}
	return "", xerrors.Errorf("program %q: %w", name, exec.ErrNotFound)
}

// errUser: only root can be another user.
var errUser = errors.New("the agent is not root, and so runs commands as its own user only: leave user out")

// become makes the command another user's.
func (r *running) become(name string) error {
	if name == "" {
		return nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return xerrors.Errorf("find user: %w", err)
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return xerrors.Errorf("find user %s: %w", name, err)
	}
	if os.Geteuid() != 0 {
		if int(uid) == os.Geteuid() { // it has 32 bits
			return nil
		}
		return errUser
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return xerrors.Errorf("find group of user %s: %w", name, err)
	}
	credential := &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	groups, err := u.GroupIds()
	if err != nil {
		return xerrors.Errorf("find groups of user %s: %w", name, err)
	}
	for _, text := range groups {
		if group, err := strconv.ParseUint(text, 10, 32); err == nil {
			credential.Groups = append(credential.Groups, uint32(group))
		}
	}
	r.cmd.SysProcAttr.Credential = credential
	r.cmd.Env = append(r.cmd.Env[:len(r.cmd.Env):len(r.cmd.Env)], "HOME="+u.HomeDir, "USER="+name, "LOGNAME="+name)
	return nil
}

// pipes opens input and output; what it returns is the command's.
func (r *running) pipes(s spec) (theirs []*os.File, err error) {
	if s.input {
		in, w, err := os.Pipe()
		if err != nil {
			return nil, xerrors.Errorf("open input: %w", err)
		}
		theirs = append(theirs, in)
		r.cmd.Stdin, r.input = in, w
	}
	for _, to := range []*io.Writer{&r.cmd.Stdout, &r.cmd.Stderr} {
		out, w, err := os.Pipe()
		if err != nil {
			return theirs, xerrors.Errorf("open output: %w", err)
		}
		theirs = append(theirs, w)
		r.outputs = append(r.outputs, out)
		*to = w
	}
	return theirs, nil
}

func (r *running) pty(s spec) (theirs []*os.File, err error) {
	master, slave, err := pty.Open()
	if err != nil {
		return nil, xerrors.Errorf("open terminal: %w", err)
	}
	r.terminal, r.input, r.outputs = master, master, []*os.File{master}
	if s.rows > 0 && s.cols > 0 {
		if err := pty.Setsize(master, &pty.Winsize{Rows: s.rows, Cols: s.cols}); err != nil {
			return []*os.File{slave}, xerrors.Errorf("set size of terminal: %w", err)
		}
	}
	if c := r.cmd.SysProcAttr.Credential; c != nil {
		if err := slave.Chown(int(c.Uid), int(c.Gid)); err != nil {
			return []*os.File{slave}, xerrors.Errorf("hand over terminal: %w", err)
		}
	}
	r.cmd.Stdin, r.cmd.Stdout, r.cmd.Stderr = slave, slave, slave
	return []*os.File{slave}, nil
}

// copy hands the output on. Of a terminal it ends with EIO, when no process has it any more.
func (r *running) copy(to sinks) {
	defer close(r.copied)
	var copying sync.WaitGroup
	for i, from := range r.outputs {
		w := to.stdout
		if i == 1 {
			w = to.stderr
		}
		copying.Go(func() {
			// Not io.Copy: of a file it makes a bigger buffer than there is output mostly.
			buffer := make([]byte, pieceSize)
			for {
				n, err := from.Read(buffer)
				if n > 0 {
					if _, err := w.Write(buffer[:n]); err != nil {
						_, _ = io.Copy(io.Discard, from) // it has no reader, and goes on
						return
					}
				}
				if err != nil {
					return
				}
			}
		})
	}
	copying.Wait()
}

// wait returns the exit code, 128 + n after signal n, when all output was handed on.
func (r *running) wait() int {
	_ = r.cmd.Wait() // how it ended is in ProcessState
	r.mu.Lock()
	if r.ending { // the group's number is free only when the group is empty
		_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
	}
	r.ended = true
	r.mu.Unlock()
	r.settle()
	r.close()
	<-r.copied
	if r.cmd.ProcessState == nil { // it could not be waited for
		return 1
	}
	if status, ok := r.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return r.cmd.ProcessState.ExitCode()
}

// settle returns when all output has come, or nothing came for a while.
func (r *running) settle() {
	for last := int64(-1); ; {
		progress, stuck := r.moves()
		if progress == last && !stuck {
			return
		}
		last = progress
		timer := r.clock.NewTimer(outputDelay, "processes", "output")
		select {
		case <-r.copied:
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

func (r *running) close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	for _, f := range r.outputs {
		_ = f.Close()
	}
	if r.input != nil {
		_ = r.input.Close()
	}
}

// feed copies to the input of the command, and ends it where it is no terminal.
func (r *running) feed(from io.Reader) {
	if r.input == nil {
		return
	}
	_, _ = io.Copy(r.input, from)
	if r.terminal == nil {
		_ = r.input.Close()
	}
}

// signal is for the group, as long as it is known to be the command's.
func (r *running) signal(sig syscall.Signal) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	return syscall.Kill(-r.cmd.Process.Pid, sig) == nil
}

// end asks the group to end, and makes it after the grace. It returns at once.
func (r *running) end(grace time.Duration) {
	r.mu.Lock()
	r.ending = true
	r.mu.Unlock()
	r.signal(syscall.SIGTERM)
	r.clock.AfterFunc(grace, func() { r.signal(syscall.SIGKILL) }, "processes", "kill")
}

// kill ends the group at once.
func (r *running) kill() {
	r.mu.Lock()
	r.ending = true
	r.mu.Unlock()
	r.signal(syscall.SIGKILL)
}

// killWith kills when ctx ends.
func (r *running) killWith(ctx context.Context) (spare func() bool) {
	return context.AfterFunc(ctx, r.kill)
}

func (r *running) resize(size sdk.WindowSize) error {
	if r.terminal == nil {
		return errors.New("it has no terminal")
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return errEnded
	}
	if err := pty.Setsize(r.terminal, &pty.Winsize{Rows: size.Rows, Cols: size.Cols}); err != nil {
		return fmt.Errorf("resize terminal: %w", err)
	}
	return nil
}

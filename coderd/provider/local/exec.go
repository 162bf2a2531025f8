package local

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// outputDelay is how long the output of a command is waited for after its end: something it left in the background may
// keep it open.
const outputDelay = time.Second

// Exec has the workspace's supervisor run a command in its home, with its environment. The command ends with ctx, with
// this process, and with the workspace. A Stdin that is still being read when the command ends is left to its owner to
// close.
func (p *Provider) Exec(ctx context.Context, ref provider.Ref, req provider.ExecRequest) (int, error) {
	if len(req.Command) == 0 {
		return 0, xerrors.New("no command is given")
	}
	d, w, v, err := p.find(ctx, ref)
	if err != nil {
		return 0, err
	}
	if !v.alive || v.final() {
		return 0, errNotRunning
	}
	if err := p.mayRun(w); err != nil {
		return 0, err
	}
	env := w.environment(d)
	maps.Copy(env, req.Env)
	env[envMark] = w.mark()
	s, err := openStreams(req)
	if err != nil {
		return 0, err
	}
	defer s.close()
	end, err := p.run(ctx, d, w, commandRequest{req.Command, env, req.TTY}, s.theirs[:])
	if err != nil {
		return 0, err
	}
	s.begin(req)
	status, err := end()
	if err != nil {
		return 0, err
	}
	delay := p.clock.NewTimer(outputDelay, "local", "exec")
	defer delay.Stop()
	select {
	case <-s.shown:
	case <-delay.C:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	_, code := exitDetail(status)
	return code, nil
}

// run has the supervisor of a workspace run a command with these files. The function that it returns waits for the end.
func (p *Provider) run(
	ctx context.Context, d dir, w workspace, r commandRequest, files []*os.File,
) (end func() (syscall.WaitStatus, error), err error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	if len(text) > maxCommandRequest {
		return nil, xerrors.Errorf("the command and its environment have more than %d bytes", maxCommandRequest)
	}
	var conn *net.UnixConn
	err = inDirectory(d, func(short string) error {
		conn, err = net.DialUnix("unix", nil, &net.UnixAddr{Name: short})
		return err
	})
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p.runHere(ctx, w, r, files)
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, errNotRunning
	case err != nil:
		return nil, xerrors.Errorf("reach its supervisor: %w", err)
	}
	// Closing the connection ends the command, wherever that is.
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	answers := json.NewDecoder(conn)
	next := func() (answer commandAnswer, err error) {
		switch err = answers.Decode(&answer); {
		case ctx.Err() != nil:
			err = ctx.Err()
		case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET): // the supervisor is gone, and all with it
			answer.Status, err = syscall.WaitStatus(syscall.SIGKILL), nil
		case answer.Error != "":
			err = xerrors.New(answer.Error)
		}
		return answer, err
	}
	fds := lists.Of(files, func(f *os.File) int { return int(f.Fd()) })
	_, _, err = conn.WriteMsgUnix(binary.BigEndian.AppendUint32(nil, uint32(len(text))), unix.UnixRights(fds...), nil)
	if err == nil {
		_, err = conn.Write(text)
	}
	if err == nil || errors.Is(err, syscall.EPIPE) { // it may have refused already
		_, err = next()
	}
	if err != nil {
		stop()
		_ = conn.Close()
		return nil, err
	}
	return func() (syscall.WaitStatus, error) {
		defer func() { _ = conn.Close() }()
		defer stop()
		last, err := next()
		return last.Status, err
	}, nil
}

// runHere runs a command for a workspace whose supervisor is of a release before 0.2 and takes none; it goes with 0.3. It
// holds the lock of the name meanwhile: a Delete comes before it, and there is no workspace, or after it, and finds its
// processes.
func (p *Provider) runHere(
	ctx context.Context, w workspace, r commandRequest, files []*os.File,
) (end func() (syscall.WaitStatus, error), err error) {
	err = p.locked(ctx, provider.Ref{Name: w.Name, WorkspaceID: w.Tags.WorkspaceID},
		func(ctx context.Context, d dir, _ workspace, _ *os.File) error {
			if _, err := os.Lstat(d.execSocket()); err == nil {
				return errNotRunning // it was made anew meanwhile
			}
			path, err := program(r.Command[0], r.Environment, d.home())
			if err != nil {
				return err
			}
			cmd := exec.CommandContext(ctx, path, r.Command[1:]...)
			cmd.Args[0], cmd.Dir, cmd.Env = r.Command[0], d.home(), provider.Environ(r.Environment)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = files[0], files[1], files[2]
			cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Setpgid: !r.Terminal, Setsid: r.Terminal, Setctty: r.Terminal, Pdeathsig: syscall.SIGKILL,
			}
			began, ended := make(chan error), make(chan struct{})
			go func() {
				runtime.LockOSThread() // which Pdeathsig follows
				defer close(ended)
				err := cmd.Start()
				began <- err
				if err == nil {
					_ = cmd.Wait()
				}
			}()
			end = func() (syscall.WaitStatus, error) {
				<-ended
				status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
				return status, ctx.Err()
			}
			return <-began
		})
	return end, err
}

// streams are the files that a command gets, and the other ends of them.
type streams struct {
	theirs   [3]*os.File
	input    io.WriteCloser // nil: none
	outputs  []output
	terminal *os.File // nil: none
	ended    chan struct{}
	shown    chan struct{} // closed when all output was copied; nil before begin
}

type output struct {
	from *os.File
	to   io.Writer
}

func openStreams(req provider.ExecRequest) (*streams, error) {
	s := &streams{ended: make(chan struct{})}
	open := s.openPipes
	if req.TTY {
		open = s.openTerminal
	}
	if err := open(req); err != nil {
		s.close()
		return nil, xerrors.Errorf("open input and output: %w", err)
	}
	return s, nil
}

func (s *streams) openPipes(req provider.ExecRequest) (err error) {
	if req.Stdin == nil {
		s.theirs[0], err = os.Open(os.DevNull)
	} else {
		var w *os.File
		s.theirs[0], w, err = os.Pipe()
		s.input = w
	}
	if err != nil {
		return err
	}
	if s.theirs[1], err = s.openOutput(req.Stdout); err != nil {
		return err
	}
	if req.Stderr != nil && reflect.TypeOf(req.Stderr).Comparable() && req.Stderr == req.Stdout { // one writer, which two copies would use at once
		s.theirs[2] = s.theirs[1]
		return nil
	}
	s.theirs[2], err = s.openOutput(req.Stderr)
	return err
}

func (s *streams) openOutput(to io.Writer) (*os.File, error) {
	if to == nil {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	r, w, err := os.Pipe()
	if err == nil {
		s.outputs = append(s.outputs, output{r, to})
	}
	return w, err
}

// begin copies, once the command has its files.
func (s *streams) begin(req provider.ExecRequest) {
	closeAll(slices.Compact(s.theirs[:])...)
	s.theirs = [3]*os.File{}
	if req.Stdin != nil {
		go func() {
			_, _ = io.Copy(s.input, req.Stdin)
			if s.terminal == nil {
				_ = s.input.Close()
			}
		}()
	}
	if s.terminal != nil {
		go req.Resizes(s.ended, func(size provider.WindowSize) { resize(s.terminal, size) })
	}
	s.shown = make(chan struct{})
	copied := make(chan struct{})
	for _, o := range s.outputs {
		go func() {
			_, _ = io.Copy(o.to, o.from) // of a terminal it ends with EIO, when no process has it any more
			copied <- struct{}{}
		}()
	}
	go func() {
		defer close(s.shown)
		for range s.outputs {
			<-copied
		}
	}()
}

// close ends copying: nothing is written to the caller's writers after it.
func (s *streams) close() {
	close(s.ended)
	closeAll(slices.Compact(s.theirs[:])...)
	for _, o := range s.outputs {
		_ = o.from.Close()
	}
	if s.input != nil {
		_ = s.input.Close()
	}
	if s.shown != nil {
		<-s.shown
	}
}

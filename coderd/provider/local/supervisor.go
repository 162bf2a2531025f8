package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coder/quartz"
	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/provider"
)

// supervisorCommand is the hidden subcommand that this package's init runs.
const supervisorCommand = "local-supervisor"

// takenOver is what a supervisor answers on descriptor 3 when it has recorded itself and its first process.
const takenOver = "taken over"

// init runs the supervisor and ends the process with it, if that is what it was started for: any program with this package
// in it, a test as well. It is done here and not in main, since other packages take four times as long to get ready as all
// that a supervisor needs; each workspace starts it twice.
func init() {
	if len(os.Args) > 1 && os.Args[1] == supervisorCommand {
		os.Exit(runSupervisor(os.Args[2:]))
	}
}

// runSupervisor is the life of a supervisor, and returns its exit status. Its arguments are the directory of the
// workspace and, where that is isolated, how far the supervisor is on its way there (enter). Descriptor 3 is a pipe to
// whoever started it, and 4 the lock of the workspace's name.
func runSupervisor(args []string) int {
	// Pdeathsig and capabilities are about a thread, not the process; and the main thread lives to the end.
	runtime.LockOSThread()
	if err := supervise(args); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func supervise(args []string) error {
	if len(args) == 1 && args[0] == probeArgument {
		return tryNamespaces()
	}
	if len(args) > 1 && args[1] == enterArgument {
		return enter(dir(args[0]), args[2:])
	}
	caller, nameLock := inherited(3, "caller"), inherited(4, "name lock")
	if len(args) < 1 || len(args) > 2 || caller == nil || nameLock == nil {
		return xerrors.New(supervisorCommand + " is started by the server, never by hand")
	}
	s, err := newSupervisor(dir(args[0]), args[1:])
	if err == nil {
		err = s.start()
	}
	if err != nil {
		return err
	}
	_, _ = caller.WriteString(takenOver) // the caller may be dead: that must not matter
	_ = caller.Close()
	_ = nameLock.Close()
	return s.run()
}

// inherited opens a descriptor that came from the caller, and keeps it from going on to the workspace.
func inherited(fd uintptr, name string) *os.File {
	if _, err := unix.FcntlInt(fd, unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
		return nil
	}
	return os.NewFile(fd, name)
}

// supervisor runs a workspace's processes. Everything but stop happens on the main thread; only there is state used, and
// only there are processes started.
type supervisor struct {
	dir    dir
	w      workspace
	env    map[string]string
	clock  quartz.Clock
	lock   *os.File
	log    *rotatingFile
	listen *net.UnixListener // takes what is to run beside the command
	gone   chan struct{}     // closed when no process of the workspace is left

	stopping atomic.Bool
	state    state
	output   *pump // of the main process

	begins  chan *execution
	kills   chan *execution
	running map[int]*execution // by process id
	served  sync.WaitGroup     // those whose client is not told of their end yet
}

// newSupervisor takes the workspace over. What is inside says that this is the first process of a PID namespace, and which
// process it is to those outside of that.
func newSupervisor(d dir, inside []string) (*supervisor, error) {
	w, err := load(d)
	if err != nil {
		return nil, xerrors.Errorf("load workspace: %w", err)
	}
	s := &supervisor{
		dir: d, w: w, env: w.environment(d), clock: quartz.NewReal(), gone: make(chan struct{}),
		begins: make(chan *execution), kills: make(chan *execution), running: map[int]*execution{},
	}
	s.state = state{BootID: bootID(), Isolated: len(inside) > 0}
	if s.state.Isolated {
		err = json.Unmarshal([]byte(inside[0]), &s.state.Supervisor)
	} else {
		s.state.Supervisor, err = self()
	}
	if err != nil {
		return nil, xerrors.Errorf("read own start: %w", err)
	}
	if s.lock, err = os.OpenFile(d.lockFile(), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, xerrors.Errorf("open lock: %w", err)
	}
	if ok, err := tryLock(s.lock); err != nil {
		return nil, xerrors.Errorf("take lock: %w", err)
	} else if !ok {
		return nil, xerrors.New("take lock: another supervisor has it")
	}
	if s.log, err = openRotatingFile(d.logFile(), maxLogSize); err != nil {
		return nil, xerrors.Errorf("open log: %w", err)
	}
	if s.listen, err = listenForExec(d); err != nil {
		return nil, xerrors.Errorf("listen for commands: %w", err)
	}
	return s, s.confine()
}

// confine makes this process the reaper of all that descends from it, and keeps these from more rights than they have.
func (s *supervisor) confine() error {
	if !s.state.Isolated { // else it is anyway
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			return xerrors.Errorf("become reaper: %w", err)
		}
	}
	if os.Geteuid() != 0 && !s.state.Isolated || os.Geteuid() == 0 && s.w.UID == 0 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return xerrors.Errorf("give up new privileges: %w", err)
	}
	return nil
}

// start records this process before it runs anything, so that nobody ever starts a second one beside what it left.
func (s *supervisor) start() error {
	// Caught rather than ignored: what is ignored stays so in the workspace's processes.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM, syscall.SIGINT)
	before, err := observe(s.dir) // of the supervisor before a stop, if any
	if err != nil {
		return xerrors.Errorf("read state: %w", err)
	}
	s.state.SetupDone = before.SetupDone
	if err := s.record(phaseStarting, 0, ""); err != nil {
		return err
	}
	if len(s.w.spec.setup) > 0 && !s.state.SetupDone {
		err = s.begin(phaseSetup, s.w.spec.setup)
	} else {
		err = s.begin(phaseRunning, s.w.spec.command)
	}
	if err != nil {
		return err
	}
	go func() {
		<-terminate
		s.stop()
	}()
	return nil
}

// reaped is a child that ended, or why there is none to wait for.
type reaped struct {
	pid    int
	status syscall.WaitStatus
	err    error
}

// run handles what happens, one after the other, until no child is left. There is only one wait in this process, for any
// child: a library that waits for one child of its own would have it taken away.
func (s *supervisor) run() error {
	children, next := make(chan reaped), make(chan struct{})
	go func() {
		for {
			var r reaped
			r.pid, r.err = syscall.Wait4(-1, &r.status, 0, nil)
			if errors.Is(r.err, syscall.EINTR) {
				continue
			}
			children <- r
			<-next
		}
	}()
	go s.acceptExec()
	for {
		select {
		case e := <-s.begins:
			e.started <- s.execute(e)
		case e := <-s.kills:
			if s.running[e.pid] == e {
				_ = syscall.Kill(-e.pid, syscall.SIGKILL)
			}
		case r := <-children:
			over, err := s.reap(r)
			if over || err != nil {
				return err
			}
			next <- struct{}{}
		}
	}
}

// reap handles the end of a child. It is over when there is none, also not by now.
func (s *supervisor) reap(r reaped) (over bool, err error) {
	switch e := s.running[r.pid]; {
	case errors.Is(r.err, syscall.ECHILD):
		if unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil) != unix.ECHILD {
			return false, nil
		}
		return true, s.finish()
	case r.err != nil:
		return false, xerrors.Errorf("wait: %w", r.err)
	case r.pid == s.state.Main.PID:
		return false, s.mainEnded(r.status)
	case e != nil:
		delete(s.running, r.pid)
		e.ended <- r.status
	}
	return false, nil
}

// mainEnded goes on from setup to command, or ends everything.
func (s *supervisor) mainEnded(ws syscall.WaitStatus) error {
	s.output.drain(s.clock)
	s.state.Main = process{}
	how, code := exitDetail(ws)
	if s.state.Phase == phaseSetup && code == 0 {
		return s.begin(phaseRunning, s.w.spec.command)
	}
	go s.stop()
	if s.state.Phase == phaseSetup {
		return s.record(phaseFailed, code, "setup "+how)
	}
	return s.record(phaseExited, code, "command "+how)
}

// begin starts the process of a phase. One that cannot be started is the end of the workspace, not of the supervisor.
func (s *supervisor) begin(phase phase, command []string) error {
	if s.stopping.Load() {
		return s.record(phaseFailed, 0, "stopped before its command began")
	}
	env := s.env
	if phase == phaseRunning && s.w.AgentURL != "" {
		command, env = s.w.underAgent(s.dir, command, env)
	}
	main, err := s.spawnMain(command, env)
	if err != nil {
		go s.stop()
		return s.record(phaseFailed, 127, xerrors.Errorf("start %s: %w", command[0], err).Error())
	}
	s.state.Main, s.state.SetupDone = main, phase == phaseRunning
	return s.record(phase, 0, "")
}

// spawnMain starts a command whose output goes to the log.
func (s *supervisor) spawnMain(command []string, env map[string]string) (process, error) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return process{}, err
	}
	defer null.Close()
	out, err := newPump(s.log)
	if err != nil {
		return process{}, err
	}
	defer out.w.Close()
	s.output = out
	pid, err := s.spawn(command, env, []*os.File{null, out.w, out.w}, false)
	return process{PID: pid}, err
}

// spawn starts a command as the leader of a process group, or of a session on the terminal that its files are. It is
// killed with this process.
func (s *supervisor) spawn(command []string, env map[string]string, files []*os.File, terminal bool) (pid int, err error) {
	path, err := program(command[0], env, s.dir.home())
	if err != nil {
		return 0, err
	}
	attributes := &syscall.SysProcAttr{Setpgid: !terminal, Setsid: terminal, Setctty: terminal}
	if !s.state.Isolated {
		attributes.Pdeathsig = syscall.SIGKILL
	}
	if uid := uint32(s.w.UID); uid != 0 {
		attributes.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	fds := make([]uintptr, len(files))
	for i, f := range files {
		if err := s.handOver(f, terminal); err != nil {
			return 0, err
		}
		fds[i] = f.Fd()
	}
	return syscall.ForkExec(path, command, &syscall.ProcAttr{
		Dir: s.dir.home(), Env: provider.Environ(env), Files: fds, Sys: attributes,
	})
}

// handOver gives a pipe or a terminal to the workspace's user, so that it can be opened again by its name: /dev/stdout.
func (s *supervisor) handOver(f *os.File, terminal bool) error {
	info, err := f.Stat()
	if err != nil || s.w.UID == 0 || info.Mode()&fs.ModeNamedPipe == 0 && !terminal {
		return err
	}
	return f.Chown(s.w.UID, s.w.UID)
}

// stop ends all processes: SIGTERM, and after the grace SIGKILL as often as it takes. It returns when they are gone.
func (s *supervisor) stop() {
	if s.stopping.Swap(true) {
		return // another call is at it
	}
	s.signalAll(syscall.SIGTERM, syscall.SIGCONT) // one that is stopped must go on to take notice
	grace := s.clock.NewTimer(s.w.spec.stopGrace, "supervisor", "grace")
	defer grace.Stop()
	select {
	case <-s.gone:
		return
	case <-grace.C:
	}
	again := s.clock.NewTicker(10*time.Millisecond, "supervisor", "kill")
	defer again.Stop()
	for {
		s.signalAll(syscall.SIGKILL)
		select {
		case <-s.gone:
			return
		case <-again.C:
		}
	}
}

func (s *supervisor) signalAll(signals ...syscall.Signal) {
	if s.state.Isolated { // to all of the namespace but this process, its first
		for _, sig := range signals {
			_ = syscall.Kill(-1, sig)
		}
		return
	}
	all, err := descendants(os.Getpid())
	if err != nil {
		fmt.Fprintln(os.Stderr, xerrors.Errorf("find processes: %w", err))
	}
	for _, p := range all {
		p.send(signals...)
	}
}

// finish runs when there is no child any more. With the lock goes the last that the outside sees of a supervisor.
func (s *supervisor) finish() error {
	close(s.gone)
	s.served.Wait()
	_ = s.listen.Close()
	if err := s.log.Close(); err != nil {
		return xerrors.Errorf("close log: %w", err)
	}
	return s.lock.Close()
}

func (s *supervisor) record(phase phase, code int, detail string) error {
	s.state.Phase, s.state.ExitCode, s.state.Detail = phase, code, detail
	if err := s.state.write(s.dir); err != nil {
		return xerrors.Errorf("record %s: %w", phase, err)
	}
	return nil
}

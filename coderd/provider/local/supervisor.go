package local

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coder/quartz"
	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"
)

// SupervisorCommand is the hidden subcommand that ends up in RunSupervisor.
const SupervisorCommand = "local-supervisor"

// takenOver is what a supervisor answers on descriptor 3 when it has recorded itself and its first process.
const takenOver = "taken over"

// MaybeRunSupervisor runs the supervisor and exits, if that is what this process was started for. A TestMain calls it
// first, so that the test binary can be its own supervisor.
func MaybeRunSupervisor() {
	if len(os.Args) > 1 && os.Args[1] == SupervisorCommand {
		os.Exit(RunSupervisor(os.Args[2:]))
	}
}

// RunSupervisor is the life of a supervisor, and returns its exit status. Its argument is the directory of the
// workspace. Descriptor 3 is a pipe to whoever started it, and 4 the lock of the workspace's name.
func RunSupervisor(args []string) int {
	// Pdeathsig is about the thread that started a child, not the process; and the main thread lives to the end.
	runtime.LockOSThread()
	caller, nameLock := inherited(3, "caller"), inherited(4, "name lock")
	if len(args) != 1 || caller == nil || nameLock == nil {
		fmt.Fprintln(os.Stderr, SupervisorCommand+" is started by the server, never by hand")
		return 2
	}
	s, err := newSupervisor(dir(args[0]))
	if err == nil {
		err = s.start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	_, _ = caller.WriteString(takenOver) // the caller may be dead: that must not matter
	_ = caller.Close()
	_ = nameLock.Close()
	if err := s.run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// inherited opens a descriptor that came from the caller, and keeps it from going on to the workspace.
func inherited(fd uintptr, name string) *os.File {
	if _, err := unix.FcntlInt(fd, unix.F_SETFD, unix.FD_CLOEXEC); err != nil {
		return nil
	}
	return os.NewFile(fd, name)
}

// supervisor runs a workspace's processes. Everything but stop happens on the main thread; only there is state used.
type supervisor struct {
	dir   dir
	w     workspace
	env   map[string]string
	clock quartz.Clock
	lock  *os.File
	log   *rotatingFile
	gone  chan struct{} // closed when no process of the workspace is left

	stopping atomic.Bool
	state    state
	output   *pump // of the main process
}

func newSupervisor(d dir) (*supervisor, error) {
	w, err := load(d)
	if err != nil {
		return nil, xerrors.Errorf("load workspace: %w", err)
	}
	lock, err := os.OpenFile(d.lockFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, xerrors.Errorf("open lock: %w", err)
	}
	if ok, err := tryLock(lock); err != nil {
		return nil, xerrors.Errorf("take lock: %w", err)
	} else if !ok {
		return nil, xerrors.New("take lock: another supervisor has it")
	}
	log, err := openRotatingFile(d.logFile(), maxLogSize)
	if err != nil {
		return nil, xerrors.Errorf("open log: %w", err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, xerrors.Errorf("become reaper: %w", err)
	}
	return &supervisor{
		dir: d, w: w, env: w.environment(d), lock: lock, log: log,
		clock: quartz.NewReal(), gone: make(chan struct{}),
	}, nil
}

// start records this process before it runs anything, so that nobody ever starts a second one beside what it left.
func (s *supervisor) start() error {
	// Caught rather than ignored: what is ignored stays so in the workspace's processes.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, syscall.SIGTERM, syscall.SIGINT)
	self, err := readStat(os.Getpid())
	if err != nil {
		return xerrors.Errorf("read own start: %w", err)
	}
	before, err := observe(s.dir) // of the supervisor before a stop, if any
	if err != nil {
		return xerrors.Errorf("read state: %w", err)
	}
	s.state = state{BootID: bootID(), Supervisor: self.process, SetupDone: before.SetupDone}
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

// run reaps until nothing is left. There is only one wait in this process, for any child: a library that waits for one
// child of its own would have it taken away.
func (s *supervisor) run() error {
	for {
		var ws syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err == syscall.ECHILD:
			return s.finish()
		case err != nil:
			return xerrors.Errorf("wait: %w", err)
		case pid == s.state.Main.PID:
			if err := s.mainEnded(ws); err != nil {
				return err
			}
		}
	}
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
	main, err := s.spawn(command, env)
	if err != nil {
		go s.stop()
		return s.record(phaseFailed, 127, err.Error())
	}
	s.state.Main, s.state.SetupDone = main, phase == phaseRunning
	return s.record(phase, 0, "")
}

// spawn starts a command as the leader of a process group that is killed with this process.
func (s *supervisor) spawn(command []string, env map[string]string) (process, error) {
	path, err := program(command[0], env, s.dir.home())
	if err != nil {
		return process{}, xerrors.Errorf("start %s: %w", command[0], err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return process{}, xerrors.Errorf("start %s: %w", command[0], err)
	}
	defer null.Close()
	out, err := newPump(s.log)
	if err != nil {
		return process{}, xerrors.Errorf("start %s: %w", command[0], err)
	}
	defer out.w.Close()
	pid, err := syscall.ForkExec(path, command, &syscall.ProcAttr{
		Dir:   s.dir.home(),
		Env:   environ(env),
		Files: []uintptr{null.Fd(), out.w.Fd(), out.w.Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return process{}, xerrors.Errorf("start %s: %w", command[0], err)
	}
	s.output = out
	stat, err := readStat(pid) // not reaped yet, so it is there even if it has ended
	if err != nil {
		return process{}, xerrors.Errorf("start %s: %w", command[0], err)
	}
	return stat.process, nil
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

package processes

import (
	"cmp"
	"errors"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/sys/unix"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/lists"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

const (
	// mostRunning is how many processes may run at once, and mostEnded of how many that have ended the output is kept.
	mostRunning = 256
	mostEnded   = 64

	defaultGrace = 10 * time.Second
)

var (
	errUnknown = errors.New("there is no such process; `GET /processes` lists those there are")
	errFull    = errors.New("too many processes are running: end some")
	errClosed  = errors.New("the work of the workspace has ended")
	errNoInput = errors.New("it has no input: start it with stdin or tty")
	errEnded   = errors.New("it has ended")
)

// Options of a Table. All are needed but those that say otherwise.
type Options struct {
	Env   []string // of what is run
	Dir   string   // where it is run
	Clock quartz.Clock
	Log   slog.Logger
	Grace time.Duration // between SIGTERM and SIGKILL; 10 s where 0
}

// Table has the processes of one workspace. It is safe for concurrent use.
type Table struct {
	Options
	running sync.WaitGroup

	mu     sync.Mutex
	closed bool
	claim  string     // whose processes they are
	all    []*process // as they began
	ended  []*process // of all, as they ended
	execs  map[*running]struct{}
}

// process is one row.
type process struct {
	run    *running
	output *output
	done   chan struct{}

	mu   sync.Mutex
	info sdk.Process
}

// New returns an empty table.
func New(o Options) *Table {
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	hearHangUps()
	return &Table{Options: o, execs: map[*running]struct{}{}}
}

// hearHangUps makes what is started here end with its terminal, also where this process was started to ignore hang-ups, as by
// nohup. A child inherits that a signal is ignored, and not that it is handled. This process ignores them as before.
func hearHangUps() {
	if signal.Ignored(unix.SIGHUP) {
		signal.Notify(make(chan os.Signal, 1), unix.SIGHUP)
	}
}

// Close ends all that runs, and returns when it has ended. Nothing can be started any more.
func (t *Table) Close() {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	t.End()
	t.running.Wait()
}

// End ends all that runs, and forgets all output. It returns at once.
func (t *Table) End() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.endAll()
}

func (t *Table) endAll() {
	for _, p := range t.all {
		p.output.release()
		p.run.end(t.Grace)
	}
	for r := range t.execs {
		r.end(t.Grace)
	}
	t.all, t.ended = nil, nil
}

// of has the table be a claim's. What another one left is ended.
func (t *Table) of(claim string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.claim != claim {
		t.endAll()
		t.claim = claim
	}
}

// spec is what is run for a start.
func (t *Table) spec(start sdk.ProcessStart) spec {
	s := spec{
		command: start.Command, dir: t.Dir, user: start.User, tty: start.TTY, rows: start.Rows, cols: start.Cols,
		input: start.Stdin || start.TTY, env: t.Env[:len(t.Env):len(t.Env)],
	}
	if start.Shell != "" {
		s.command = []string{"sh", "-c", start.Shell}
	}
	if filepath.IsAbs(start.Dir) {
		s.dir = start.Dir
	} else if start.Dir != "" {
		s.dir = filepath.Join(t.Dir, start.Dir)
	}
	for name, value := range start.Env {
		s.env = append(s.env, name+"="+value)
	}
	return s
}

// start starts a process. One whose id is there already is returned as it is.
func (t *Table) start(start sdk.ProcessStart) (*process, error) {
	timeout, err := start.Check()
	if err != nil {
		return nil, err
	}
	id := uuid.New()
	t.mu.Lock()
	defer t.mu.Unlock()
	if start.ID != nil {
		id = *start.ID
		if p := t.find(id); p != nil {
			return p, nil
		}
	}
	if t.closed {
		return nil, errClosed
	}
	if t.runningNow() >= mostRunning {
		return nil, errFull
	}
	out := newOutput()
	s := t.spec(start)
	r, err := run(t.Clock, s, sinks{writer{out, stdout}, writer{out, stderr}}, out.state)
	if err != nil {
		return nil, xerrors.Errorf("start: %w", err)
	}
	p := &process{run: r, output: out, done: make(chan struct{}), info: sdk.Process{
		ID: id, Command: s.command, Dir: s.dir, TTY: s.tty, PID: r.cmd.Process.Pid, StartedAt: t.Clock.Now("processes", "start").UTC(),
	}}
	t.all = append(t.all, p)
	t.running.Go(func() { t.attend(p, timeout) })
	return p, nil
}

// attend waits for the end of a process.
func (t *Table) attend(p *process, timeout time.Duration) {
	if timeout > 0 {
		timer := t.Clock.AfterFunc(timeout, func() {
			p.mu.Lock()
			p.info.TimedOut = p.info.EndedAt == nil
			p.mu.Unlock()
			p.run.end(t.Grace)
		}, "processes", "timeout")
		defer timer.Stop()
	}
	code := p.run.wait()
	now := t.Clock.Now("processes", "end").UTC()
	p.mu.Lock()
	p.info.EndedAt, p.info.ExitCode = &now, &code
	p.mu.Unlock()
	p.output.finish()
	close(p.done)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.find(p.info.ID) != p {
		return // all has been forgotten
	}
	// The one goes that ended first, not the one that began first: who follows what ran for long has yet to hear how it ended.
	if t.ended = append(t.ended, p); len(t.ended) > mostEnded {
		first := t.ended[0]
		t.ended = slices.Delete(t.ended, 0, 1)
		t.all = slices.DeleteFunc(t.all, func(p *process) bool { return p == first })
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (t *Table) runningNow() int {
	n := 0
	for _, p := range t.all {
		if !p.ended() {
			n++
		}
	}
	return n
}

// find is nil where there is none. The caller locks.
func (t *Table) find(id uuid.UUID) *process {
	for _, p := range t.all {
		if p.info.ID == id { // it never changes
			return p
		}
	}
	return nil
}

func (t *Table) process(id string) (*process, error) {
	parsed, err := uuid.Parse(id)
	if err != nil {
		return nil, errUnknown
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.find(parsed); p != nil {
		return p, nil
	}
	return nil, errUnknown
}

func (t *Table) list() []sdk.Process {
	t.mu.Lock()
	all := slices.Clone(t.all)
	t.mu.Unlock()
	return lists.Of(all, (*process).show)
}

func (p *process) show() sdk.Process {
	p.mu.Lock()
	defer p.mu.Unlock()
	info := p.info
	info.Kept, info.Output = p.output.bounds()
	return info
}

// signalNamed sends one by its name, with or without SIG before it.
func (r *running) signalNamed(name string) error {
	name = strings.ToUpper(name)
	sig := unix.SignalNum("SIG" + strings.TrimPrefix(name, "SIG"))
	if sig == 0 {
		return xerrors.Errorf("there is no signal %q: write TERM, INT, HUP, USR1 or KILL", name)
	}
	if !r.signal(sig) {
		return errEnded
	}
	return nil
}

package agent

import (
	"cmp"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// Options of an agent. All are needed but those that say otherwise.
type Options struct {
	URL       string // of the server
	TokenFile string // is read again when the token is refused, and written when the server sends a new one
	CAFile    string // PEM; may be empty
	Dir       string // for what a claim brings; made if need be
	Command   []string
	Env       []string // of what the agent runs
	Stdout    io.Writer
	Stderr    io.Writer
	Version   string
	Clock     quartz.Clock
	Log       slog.Logger
	Grace     time.Duration // between SIGTERM and SIGKILL; 10 s where 0
	LastWords time.Duration // bounds the report that the command has ended; 2 s where 0
}

const (
	defaultGrace     = 10 * time.Second
	defaultLastWords = 2 * time.Second
)

// agent is one run.
type agent struct {
	Options
	server  *server
	changed chan struct{} // the condition has; there is something to report

	mu        sync.Mutex
	condition condition
	written   uuid.UUID // the claim whose files are written
	heartbeat time.Duration

	runner  sync.WaitGroup // the workspace's runner, and what is said of its end
	tunnels sync.WaitGroup // its data plane
}

// condition is what is reported of the workspace.
type condition struct {
	status  sdk.AgentStatus
	message string
	claim   uuid.UUID // that is known; zero for none
	secrets bool      // its secrets are in the workspace
}

// Run is the life of an agent. It ends when ctx does, or with the command, whose exit status it returns; an error means
// that the agent could not begin.
func Run(ctx context.Context, o Options) (status int, err error) {
	o.Grace = cmp.Or(o.Grace, defaultGrace)
	if o.LastWords == 0 {
		o.LastWords = defaultLastWords
	}
	a := &agent{
		Options: o, changed: make(chan struct{}, 1), heartbeat: heartbeatMost, condition: condition{status: sdk.AgentStarting},
	}
	if a.server, err = newServer(o); err != nil {
		return 0, err
	}
	if err := a.prepareDir(); err != nil {
		return 0, xerrors.Errorf("prepare directory of agent: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if len(o.Command) == 0 {
		a.live(ctx)
		return 0, nil
	}
	command, err := a.start(ctx, o.Command, o.Env, nil)
	if err != nil {
		return 0, xerrors.Errorf("start command: %w", err)
	}
	var talking errgroup.Group
	talking.Go(func() error { a.live(ctx); return nil })
	status, how := command.wait()
	told := ctx.Err() != nil // it was ended: nobody needs to hear
	stop()
	_ = talking.Wait()
	if !told {
		a.tellEnd(ctx, how)
	}
	return status, nil
}

// live reports, runs on_start, and follows claims, until ctx ends.
func (a *agent) live(ctx context.Context) {
	var eg errgroup.Group
	eg.Go(func() error { a.report(ctx); return nil })
	eg.Go(func() error { a.serve(ctx); return nil })
	_ = eg.Wait()
	a.runner.Wait()
	a.tunnels.Wait()
}

// serve is the workspace's life as its user sees it: start, claim, and claims after that.
func (a *agent) serve(ctx context.Context) {
	m, ok := a.metadata(ctx)
	if !ok {
		return
	}
	a.mu.Lock()
	a.heartbeat = heartbeatEvery(m.Agent.HeartbeatTimeoutS)
	a.mu.Unlock()
	env := environment(m, a.Env, a.Dir)
	if !m.Agent.DataPlaneOff() {
		a.tunnels.Go(func() { a.enter(ctx, env) })
	}
	if !a.begin(ctx, m, env) {
		return
	}
	a.set(sdk.AgentReady, "", uuid.Nil)
	a.followClaims(ctx, m, env)
}

// set makes the condition another, to be reported at once.
func (a *agent) set(status sdk.AgentStatus, message string, claim uuid.UUID) {
	a.mu.Lock()
	a.condition = condition{status, message, claim, claim != uuid.Nil && claim == a.written}
	a.mu.Unlock()
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

func (a *agent) current() (condition, time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.condition, a.heartbeat
}

// tellEnd reports that the command ended by itself; once, as the agent ends with it.
func (a *agent) tellEnd(ctx context.Context, how string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.LastWords)
	defer cancel()
	now, _ := a.current()
	report := sdk.AgentReport{Status: sdk.AgentUnhealthy, Message: "the command " + how}
	if now.claim != uuid.Nil {
		report.ClaimID = &now.claim
	}
	if err := a.server.report(ctx, report); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		a.Log.Warn(ctx, "report the end of the command", slog.Error(err))
	}
}

package embedded

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"cdr.dev/slog"
	"github.com/coder/quartz"
	"golang.org/x/xerrors"
)

const (
	readyPoll      = 10 * time.Millisecond
	releaseTimeout = 30 * time.Second // for the children of a killed postmaster to let go of the shared memory
	pipeTimeout    = time.Second      // for the children of a dead postmaster to write their last lines
)

// Options of Start. DataDir is all that must be given.
type Options struct {
	// DataDir is the server's data directory. It is made if need be, and must belong to this user.
	DataDir string
	// Settings override postgresql.conf, such as fsync for tests.
	Settings map[string]string
	// NPMFolders are searched for an unpacked @embedded-postgres package; none: build/postgres beside the binary's folder.
	NPMFolders []string
	Logger     slog.Logger
	Clock      quartz.Clock // nil: the real one
}

// Cluster is a running PostgreSQL that is kept running until Stop.
type Cluster struct {
	program program
	folder  string // the cluster's
	sockets string // a short path to it
	opts    Options

	process *process // the current one; only the supervisor's after Start
	exits   chan error
	cancel  context.CancelFunc // asks the supervisor to stop
	stopped chan struct{}      // closed when it has
	release func()
}

// Start starts the PostgreSQL of the data directory and returns when it takes connections. At the first start it makes
// the cluster. After a crash it waits for the recovery, for as long as ctx allows.
func Start(ctx context.Context, opts Options) (_ *Cluster, err error) {
	opts.Clock = cmp.Or(opts.Clock, quartz.NewReal())
	if opts.NPMFolders == nil {
		opts.NPMFolders = []string{ownNPMFolder()}
	}
	dir, err := filepath.Abs(opts.DataDir)
	if err != nil {
		return nil, xerrors.Errorf("find data directory: %w", err)
	}
	held, err := openDataDir(ctx, opts.Clock, dir)
	if err != nil {
		return nil, err
	}
	removeSockets := func() {}
	release := sync.OnceFunc(func() {
		removeSockets()
		_ = held.Close() // and with it the lock
	})
	defer func() {
		if err != nil {
			release()
		}
	}()

	c := &Cluster{
		folder:  filepath.Join(dir, clusterName),
		opts:    opts,
		exits:   make(chan error, 1),
		stopped: make(chan struct{}),
		release: release,
	}
	if err := c.prepare(ctx); err != nil {
		return nil, err
	}
	sockets, remove, err := socketFolder(c.folder)
	if err != nil {
		return nil, err
	}
	c.sockets, removeSockets = sockets, remove
	if c.process, err = c.launch(ctx); err != nil {
		return nil, xerrors.Errorf("start PostgreSQL on %s: %w", c.folder, err)
	}
	supervision, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	go c.supervise(supervision)
	return c, nil
}

// URL is that of the server's own database, for its own role. It stays the same when PostgreSQL is started again.
func (c *Cluster) URL() string { return address(c.sockets, role, database) }

// SuperuserURL is for an administrator, and for tests that make databases.
func (c *Cluster) SuperuserURL() string { return address(c.sockets, superuser, superuser) }

// Exits tells of each unexpected end of PostgreSQL, after which it is started again. Who does not listen in time gets
// only the first of those missed.
func (c *Cluster) Exits() <-chan error { return c.exits }

// Stop shuts PostgreSQL down cleanly, and hard when ctx ends before that; nothing committed is lost either way. It
// gives the data directory free.
func (c *Cluster) Stop(ctx context.Context) error {
	c.cancel()
	<-c.stopped
	defer c.release()
	if c.process == nil {
		return nil
	}
	return shutDown(ctx, c.process)
}

// prepare finds out who runs which binaries, and makes the cluster if there is none.
func (c *Cluster) prepare(ctx context.Context) error {
	major, err := clusterMajor(c.folder)
	if err != nil {
		return err
	}
	if c.program.account, err = chooseAccount(c.folder); err != nil {
		return err
	}
	c.program.binaries, err = FindBinaries(ctx, major, c.opts.NPMFolders...)
	if err != nil && major != 0 {
		return xerrors.Errorf("cluster %s was made by PostgreSQL %d and stays as it is; to go on with a newer version, "+
			"upgrade it with pg_upgrade: %w", c.folder, major, err)
	}
	if err != nil {
		return xerrors.Errorf("find PostgreSQL: %w", err)
	}
	if major != 0 {
		return nil
	}
	c.opts.Logger.Info(ctx, "making a PostgreSQL cluster", slog.F("folder", c.folder),
		slog.F("version", c.program.binaries.Major))
	if err := c.program.create(ctx, c.folder); err != nil {
		return xerrors.Errorf("create PostgreSQL cluster %s: %w", c.folder, err)
	}
	return nil
}

// launch starts PostgreSQL and returns when it answers. Postmasters that find the shared memory of their predecessor
// still in use end at once; then its last children are about to go.
func (c *Cluster) launch(ctx context.Context) (*process, error) {
	if err := endOrphans(ctx, c.opts.Clock, c.folder); err != nil {
		return nil, err
	}
	began := c.opts.Clock.Now()
	ticker := c.opts.Clock.NewTicker(readyPoll, "embedded", "ready")
	defer ticker.Stop()
	for {
		lines := &output{logger: c.opts.Logger}
		child, err := c.program.start("postgres", c.folder, c.arguments, syscall.SIGQUIT, func(cmd *exec.Cmd) {
			cmd.Stdout, cmd.Stderr, cmd.WaitDelay = lines, lines, pipeTimeout
		})
		if err != nil {
			return nil, err
		}
		err = c.awaitReady(ctx, child, ticker)
		if err == nil {
			return child, nil
		}
		held := strings.Contains(lines.tail(), "pre-existing shared memory block")
		if !held || c.opts.Clock.Since(began, "embedded", "ready") > releaseTimeout {
			return nil, xerrors.Errorf("%w:\n%s", err, lines.tail())
		}
	}
}

// awaitReady returns nil when PostgreSQL takes connections, and an error when it ended before that.
func (c *Cluster) awaitReady(ctx context.Context, child *process, ticker *quartz.Ticker) error {
	for {
		select {
		case <-child.exited:
			return xerrors.Errorf("wait for PostgreSQL: it ended: %w", exitError(child.err))
		case <-ctx.Done():
			past, cancel := context.WithCancel(ctx)
			cancel()
			_ = shutDown(past, child)
			return xerrors.Errorf("wait for PostgreSQL: %w", ctx.Err())
		case <-ticker.C:
			if takesConnections(c.folder, child.Pid) {
				return nil
			}
		}
	}
}

// arguments of the postmaster. What the address and the safety of the cluster rest on is not left to postgresql.conf.
func (c *Cluster) arguments(path string) []string {
	args := []string{
		"-D", path,
		"-c", "listen_addresses=",
		"-c", "unix_socket_directories=.", // its own folder, in which it works
		"-c", "unix_socket_permissions=0700",
		"-c", "port=" + port,
		"-c", "cluster_name=prewarm",
		"-c", "logging_collector=off",
		"-c", "log_destination=stderr",
	}
	if _, given := c.opts.Settings["fsync"]; !given {
		args = append(args, "-c", "fsync=on")
	}
	for _, name := range slices.Sorted(maps.Keys(c.opts.Settings)) {
		args = append(args, "-c", name+"="+c.opts.Settings[name])
	}
	return args
}

// shutDown ends PostgreSQL: in order, then at once when ctx ends, then by force.
func shutDown(ctx context.Context, child *process) error {
	_ = child.Signal(syscall.SIGINT) // it may be gone this moment
	select {
	case <-child.exited:
		return exitErrorUnlessClean(child.err)
	case <-ctx.Done():
	}
	_ = child.Signal(syscall.SIGQUIT)
	hard, cancel := context.WithTimeout(context.WithoutCancel(ctx), orphanGrace)
	defer cancel()
	if err := child.wait(hard); errors.Is(err, context.DeadlineExceeded) {
		return xerrors.New("stop PostgreSQL: had to kill it; the next start recovers")
	}
	return nil
}

func exitErrorUnlessClean(err error) error {
	if err == nil {
		return nil
	}
	return xerrors.Errorf("stop PostgreSQL: %w", err)
}

// exitError turns a clean exit, where none was expected, into an error too.
func exitError(err error) error {
	if err == nil {
		return xerrors.New("exit status 0")
	}
	return err
}

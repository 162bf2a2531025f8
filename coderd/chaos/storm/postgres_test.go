package storm_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/embedded"
)

// postgres is the database server, on a disk of its own where that can be had.
type postgres struct {
	t        testing.TB
	dir      string
	length   time.Duration
	small    bool   // the disk is a small one, which can be filled
	host     string // of its own, so that its port is free whoever else runs one
	standbys int    // that were begun
	cluster  *embedded.Cluster

	mu sync.Mutex // held by one fault at a time
}

func startPostgres(t testing.TB, r *rand.Rand, dir string, length time.Duration) *postgres {
	t.Helper()
	p := &postgres{t: t, dir: dir, length: length, host: ownHost(r.Uint64())}
	p.disk()
	p.start(nil)
	hba := filepath.Join(dir, "postgres", "pg_hba.conf")
	f, err := os.OpenFile(hba, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("host all all 127.0.0.0/8 trust\nhost replication all 127.0.0.0/8 trust\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	p.stop()
	p.start(p.settings())
	t.Cleanup(p.stop)
	return p
}

func ownHost(chance uint64) string {
	return fmt.Sprintf("127.%d.%d.%d", 1+chance%250, chance/250%250, 1+chance/62500%250)
}

// disk makes its folder, and a small file system there.
func (p *postgres) disk() {
	p.t.Helper()
	dir := p.dir
	require.NoError(p.t, os.Mkdir(dir, 0o755))
	size := 320 + 8*int(p.length.Minutes())
	err := syscall.Mount("prewarm-chaos", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0755", size))
	if p.small = err == nil; p.small {
		p.t.Cleanup(func() { eventually(p.t, "the disk is put away", func() bool { return syscall.Unmount(dir, 0) == nil }) })
	} else {
		p.t.Logf("LEFT OUT: the disk is not filled, since a small one cannot be made: %v", err)
	}
}

func (p *postgres) settings() map[string]string {
	return map[string]string{
		"listen_addresses": p.host, "max_connections": "120",
		"max_wal_size": "96MB", "min_wal_size": "32MB", "checkpoint_timeout": "60s",
	}
}

// address is HOST:PORT.
func (p *postgres) address() string { return p.host + ":5432" }

func (p *postgres) start(settings map[string]string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	p.cluster, err = embedded.Start(ctx, embedded.Options{DataDir: p.dir, Settings: settings})
	require.NoError(p.t, err)
}

func (p *postgres) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if p.cluster == nil {
		return // it is stopped
	}
	if err := p.cluster.Stop(ctx); err != nil {
		p.t.Logf("stop PostgreSQL: %v", err)
	}
	p.cluster = nil
}

// store is a way in that no fault of the network is on.
func (p *postgres) store() *database.Store {
	p.t.Helper()
	store, err := database.Open(context.Background(), p.cluster.URL(), database.Options{Replica: "chaos", MaxConns: 2})
	require.NoError(p.t, err)
	p.t.Cleanup(store.Close)
	return store
}

// postmaster is the first process; 0 while there is none.
func (p *postgres) postmaster() int {
	content, err := os.ReadFile(filepath.Join(p.dir, "postgres", "postmaster.pid"))
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(content), "\n")
	pid, _ := strconv.Atoi(line)
	return pid
}

// backends are the processes that the postmaster started.
func (p *postgres) backends() []int {
	postmaster := p.postmaster()
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", postmaster, postmaster))
	var pids []int
	for _, field := range strings.Fields(string(content)) {
		pid, _ := strconv.Atoi(field)
		pids = append(pids, pid)
	}
	return pids
}

// kill kills the postmaster, upon which all others end; its supervisor starts another.
func (p *postgres) kill() {
	if pid := p.postmaster(); pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// lose makes a standby without which nothing is committed, ends the server for good as a machine ends it that loses its power,
// and goes on with the standby in its place.
func (p *postgres) lose(ctx context.Context, chance uint64) error {
	next, err := p.follow(ctx, chance)
	if err != nil {
		return err
	}
	lost := append([]int{p.postmaster()}, p.backends()...)
	p.freeze()
	stopped := make(chan struct{})
	go func() { defer close(stopped); p.stop() }() // or it would be started again
	for _, pid := range lost {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-stopped
	if err := os.RemoveAll(filepath.Join(p.dir, "postgres")); err != nil {
		return err
	}
	p.dir, p.small, p.host, p.cluster = next.dir, next.small, next.host, next.cluster
	return p.asSuperuser(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "SELECT pg_promote(true, 60)")
		return err
	})
}

// follow starts a standby, and returns when nothing is committed any more that it does not have.
func (p *postgres) follow(ctx context.Context, chance uint64) (*postgres, error) {
	var next *postgres
	for try := 1; ; try++ {
		p.standbys++
		next = &postgres{
			t: p.t, dir: filepath.Join(filepath.Dir(p.dir), fmt.Sprintf("pg-%d", p.standbys)), length: p.length, host: ownHost(chance),
		}
		next.disk()
		p.t.Cleanup(p.stop) // before that disk is put away, which p may be on by then
		err := p.copyTo(ctx, next)
		if err == nil {
			break
		}
		if try == 3 { // what ended the others may have been another fault
			return nil, err
		}
	}
	next.start(next.settings())
	return next, p.asSuperuser(ctx, func(conn *pgx.Conn) error {
		for _, statement := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
			if _, err := conn.Exec(ctx, statement); err != nil {
				return err
			}
		}
		for follows := false; !follows; rest(ctx, poll) {
			err := conn.QueryRow(ctx, "SELECT count(*) > 0 FROM pg_stat_replication WHERE sync_state = 'sync'").Scan(&follows)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// copyTo makes the files of a standby.
func (p *postgres) copyTo(ctx context.Context, next *postgres) error {
	info, err := os.Stat(filepath.Join(p.dir, "postgres"))
	if err != nil {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	to := filepath.Join(next.dir, "postgres")
	if err := errors.Join(os.Mkdir(to, 0o700), os.Chown(to, int(owner.Uid), int(owner.Gid))); err != nil {
		return err
	}
	binaries, err := embedded.FindBinaries(ctx, 0)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, filepath.Join(binaries.Dir, "pg_basebackup"), "--host", p.host, "--username", "postgres",
		"--pgdata", to, "--wal-method", "stream", "--checkpoint", "fast", "--write-recovery-conf")
	cmd.Dir = "/"
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid}}
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return xerrors.Errorf("pg_basebackup: %w: %s", err, out)
	}
	return nil
}

func (p *postgres) asSuperuser(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, p.cluster.SuperuserURL())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return do(conn)
}

// shutDown ends it in order; its supervisor starts it again.
func (p *postgres) shutDown() {
	if pid := p.postmaster(); pid > 0 {
		_ = syscall.Kill(pid, syscall.SIGINT)
	}
}

// killBackend kills one of the others, upon which all connections end and it recovers.
func (p *postgres) killBackend(r uint64) {
	if pids := p.backends(); len(pids) > 0 {
		_ = syscall.Kill(pids[r%uint64(len(pids))], syscall.SIGKILL)
	}
}

// freeze stops all of it until thaw is called.
func (p *postgres) freeze() (thaw func()) {
	pids := append([]int{p.postmaster()}, p.backends()...)
	signal := func(signal syscall.Signal) {
		for _, pid := range pids {
			if pid > 0 {
				_ = syscall.Kill(pid, signal) // some come and go
			}
		}
	}
	signal(syscall.SIGSTOP)
	return func() { signal(syscall.SIGCONT) }
}

// fill leaves not a byte on its disk until empty is called.
func (p *postgres) fill() (empty func()) {
	path := filepath.Join(p.dir, "ballast")
	f, err := os.Create(path)
	if err != nil {
		p.t.Errorf("fill disk: %v", err)
		return func() {}
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	return func() { _ = os.Remove(path) }
}

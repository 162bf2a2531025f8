// Package pairtest starts a PostgreSQL with a standby that follows it, as processes of their own, for tests of what happens
// when the first is lost and the other takes its place.
package pairtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database/embedded"
)

const (
	patience = 2 * time.Minute // which only a hang exceeds
	poll     = 10 * time.Millisecond
)

// Pair is a primary and a standby. One thing is done with it at a time.
type Pair struct {
	t           testing.TB
	dir         string
	bin         string
	account     *syscall.Credential // who runs PostgreSQL; nil: whoever runs the test
	synchronous bool
	servers     [2]*server
	primary     int
}

// server is one PostgreSQL, at an address of its own for good.
type server struct {
	dir, host string
	cmd       *exec.Cmd
	ended     chan struct{} // closed when the postmaster has ended; nil: it was never started
}

// Start starts both and returns when the standby follows. With synchronous nothing is committed that the standby does not
// have as well. All is ended and removed with the test.
func Start(t testing.TB, synchronous bool) *Pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	binaries, err := embedded.FindBinaries(ctx, 0)
	require.NoError(t, err)
	if _, err := os.Stat(filepath.Join(binaries.Dir, "pg_basebackup")); err != nil {
		t.Fatalf("a standby needs pg_basebackup in %s: apt-get install postgresql", binaries.Dir)
	}
	dir, err := os.MkdirTemp("", "pair-") // short, and open to who runs PostgreSQL
	require.NoError(t, err)
	require.NoError(t, os.Chmod(dir, 0o755))
	p := &Pair{t: t, dir: dir, bin: binaries.Dir, account: account(t), synchronous: synchronous}
	t.Cleanup(p.end)
	for i := range p.servers {
		p.servers[i] = &server{
			dir:  filepath.Join(dir, strconv.Itoa(i)),
			host: fmt.Sprintf("127.%d.%d.%d", 1+rand.IntN(250), rand.IntN(250), 1+rand.IntN(250)),
		}
	}
	p.create(ctx)
	p.follow(ctx)
	return p
}

// URL is that of both, of which a client takes the one that can write.
func (p *Pair) URL() string {
	return fmt.Sprintf("postgres://prewarm@%s:5432,%s:5432/prewarm?target_session_attrs=read-write",
		p.servers[p.primary].host, p.servers[1-p.primary].host)
}

// Fail kills every process of the primary at once, as a machine that loses its power ends them.
func (p *Pair) Fail() { p.kill(p.servers[p.primary]) }

// Part keeps all that is committed from now on from the standby, and returns when it receives nothing any more.
func (p *Pair) Part(ctx context.Context) {
	p.t.Helper()
	standby := p.servers[1-p.primary]
	p.execute(ctx, standby, "ALTER SYSTEM SET primary_conninfo = ''")
	p.execute(ctx, standby, "SELECT pg_reload_conf()")
	p.await(ctx, standby, "SELECT count(*) = 0 FROM pg_stat_wal_receiver")
}

// Promote makes the standby the primary, and returns when it can write.
func (p *Pair) Promote(ctx context.Context) {
	p.t.Helper()
	p.primary = 1 - p.primary
	p.execute(ctx, p.servers[p.primary], "SELECT pg_promote(true, 60)")
}

// Rejoin makes what was lost anew as the standby of the one that took its place.
func (p *Pair) Rejoin(ctx context.Context) {
	p.t.Helper()
	lost := p.servers[1-p.primary]
	p.kill(lost)
	require.NoError(p.t, os.RemoveAll(lost.dir))
	p.follow(ctx)
}

// create makes the primary, with a database and a role as in production.
func (p *Pair) create(ctx context.Context) {
	p.t.Helper()
	s := p.servers[p.primary]
	p.folder(s)
	p.run(ctx, "initdb", "--pgdata", s.dir, "--username", "postgres", "--auth", "trust", "--encoding", "UTF8", "--locale",
		"C", "--no-instructions")
	p.write(filepath.Join(s.dir, "pg_hba.conf"), "host all all 127.0.0.0/8 trust\nhost replication all 127.0.0.0/8 trust\n")
	p.start(ctx, s)
	p.execute(ctx, s, "CREATE ROLE prewarm LOGIN")
	p.execute(ctx, s, "CREATE DATABASE prewarm OWNER prewarm")
	p.execute(ctx, s, `DO $$BEGIN IF current_setting('server_version_num')::int >= 150000 THEN
		EXECUTE 'GRANT SET ON PARAMETER prewarm.home TO prewarm'; END IF; END$$`)
}

// follow makes the other server a standby of the primary, and returns when it has all that the primary has.
func (p *Pair) follow(ctx context.Context) {
	p.t.Helper()
	s := p.servers[1-p.primary]
	p.folder(s)
	p.run(ctx, "pg_basebackup", "--host", p.servers[p.primary].host, "--username", "postgres", "--pgdata", s.dir,
		"--wal-method", "stream", "--checkpoint", "fast", "--write-recovery-conf")
	p.start(ctx, s)
	p.await(ctx, p.servers[p.primary], "SELECT count(*) = 1 FROM pg_stat_replication WHERE state = 'streaming'")
	if !p.synchronous {
		return
	}
	p.execute(ctx, p.servers[p.primary], "ALTER SYSTEM SET synchronous_standby_names = '*'")
	p.execute(ctx, p.servers[p.primary], "SELECT pg_reload_conf()")
	p.await(ctx, p.servers[p.primary], "SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'")
}

// start runs a postmaster. What the address rests on is given each time, as a standby's files are copies of the primary's.
func (p *Pair) start(ctx context.Context, s *server) {
	p.t.Helper()
	log, err := os.OpenFile(s.dir+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	require.NoError(p.t, err)
	defer log.Close()
	s.cmd = exec.Command(filepath.Join(p.bin, "postgres"), "-D", s.dir, "-c", "listen_addresses="+s.host, "-c", "port=5432",
		"-c", "unix_socket_directories=", "-c", "max_connections=120", "-c", "max_wal_size=96MB", "-c", "min_wal_size=32MB",
		"-c", "shared_buffers=64MB", "-c", "wal_receiver_status_interval=1s")
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = s.dir, log, log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.account}
	require.NoError(p.t, s.cmd.Start())
	s.ended = make(chan struct{})
	go func() { _ = s.cmd.Wait(); close(s.ended) }()
	for {
		conn, err := pgx.Connect(ctx, "postgres://postgres@"+s.host+":5432/postgres")
		if err == nil {
			require.NoError(p.t, conn.Close(ctx))
			return
		}
		select {
		case <-s.ended:
			said, _ := os.ReadFile(s.dir + ".log")
			p.t.Fatalf("PostgreSQL ended:\n%s", said)
		case <-ctx.Done():
			p.t.Fatalf("PostgreSQL takes no connections: %v", err)
		case <-time.After(poll):
		}
	}
}

// kill ends all processes of a server, and returns when they are gone.
func (p *Pair) kill(s *server) {
	p.t.Helper()
	if s.ended == nil {
		return
	}
	pids := append([]int{s.cmd.Process.Pid}, children(s.cmd.Process.Pid)...)
	select {
	case <-s.ended: // its number may be somebody else's by now
		return
	default:
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	<-s.ended
	for _, pid := range pids {
		require.Eventually(p.t, func() bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }, patience, poll)
	}
}

func (p *Pair) end() {
	for _, s := range p.servers {
		if s != nil {
			p.kill(s)
		}
	}
	if err := os.RemoveAll(p.dir); err != nil {
		p.t.Logf("remove %s: %v", p.dir, err)
	}
}

// await polls a server until a query answers true.
func (p *Pair) await(ctx context.Context, s *server, query string) {
	p.t.Helper()
	conn := p.connect(ctx, s)
	defer conn.Close(ctx)
	for ok := false; !ok; {
		require.NoError(p.t, conn.QueryRow(ctx, query).Scan(&ok), query)
		if !ok {
			time.Sleep(poll)
		}
	}
}

func (p *Pair) execute(ctx context.Context, s *server, statement string) {
	p.t.Helper()
	conn := p.connect(ctx, s)
	defer conn.Close(ctx)
	_, err := conn.Exec(ctx, statement)
	require.NoError(p.t, err, statement)
}

func (p *Pair) connect(ctx context.Context, s *server) *pgx.Conn {
	p.t.Helper()
	conn, err := pgx.Connect(ctx, "postgres://postgres@"+s.host+":5432/postgres")
	require.NoError(p.t, err)
	return conn
}

// folder makes an empty data directory.
func (p *Pair) folder(s *server) {
	p.t.Helper()
	require.NoError(p.t, os.Mkdir(s.dir, 0o700))
	if p.account != nil {
		require.NoError(p.t, os.Chown(s.dir, int(p.account.Uid), int(p.account.Gid)))
	}
}

// write replaces a file of a data directory, whose owner stays.
func (p *Pair) write(path, content string) {
	p.t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	require.NoError(p.t, err)
	_, err = f.WriteString(content)
	require.NoError(p.t, err)
	require.NoError(p.t, f.Close())
}

func (p *Pair) run(ctx context.Context, name string, args ...string) {
	p.t.Helper()
	cmd := exec.CommandContext(ctx, filepath.Join(p.bin, name), args...)
	cmd.Dir = p.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.account}
	out, err := cmd.CombinedOutput()
	require.NoError(p.t, err, "%s: %s", name, out)
}

// account is whom root runs PostgreSQL as, which refuses to run as root.
func account(t testing.TB) *syscall.Credential {
	t.Helper()
	if os.Geteuid() != 0 {
		return nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		u, err = user.Lookup("nobody")
	}
	require.NoError(t, err, "PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody")
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	require.NoError(t, err)
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	require.NoError(t, err)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
}

// children are the processes that one has started.
func children(pid int) []int {
	content, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	var pids []int
	for _, field := range strings.Fields(string(content)) {
		child, _ := strconv.Atoi(field)
		pids = append(pids, child)
	}
	return pids
}

package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/procfs"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/embedded"
)

// cluster is a PostgreSQL of this run, with the settings that `prewarm server` gives its own: durable, with fsync.
type cluster struct {
	server     *embedded.Cluster
	admin      *pgx.Conn
	postmaster int
	databases  int
	version    int // of the server, as in server_version_num
}

func startCluster(ctx context.Context, dir string) *cluster {
	server := get(embedded.Start(ctx, embedded.Options{DataDir: filepath.Join(dir, "data")}))
	c := &cluster{server: server}
	c.connect(ctx)
	var settings string
	var backend int
	must(c.admin.QueryRow(ctx, `SELECT pg_backend_pid(), current_setting('server_version_num')::int, concat_ws(' ', version(), 'fsync', current_setting('fsync'),
		'synchronous_commit', current_setting('synchronous_commit'), 'full_page_writes', current_setting('full_page_writes'),
		'shared_buffers', current_setting('shared_buffers'))`).Scan(&backend, &c.version, &settings))
	fmt.Fprintln(os.Stderr, "#", settings)
	c.postmaster = get(procStat(backend)).PPID
	return c
}

// connect connects anew if need be: a statement whose context ends takes its connection along.
func (c *cluster) connect(ctx context.Context) {
	if c.admin == nil || c.admin.IsClosed() {
		c.admin = get(pgx.Connect(ctx, c.server.SuperuserURL()))
	}
}

func (c *cluster) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	_ = c.admin.Close(ctx)
	_ = c.server.Stop(ctx)
}

// database makes a copy of the one at that URL, or an empty one, and returns its URL and what removes it.
func (c *cluster) database(ctx context.Context, like string) (string, func()) {
	c.databases++
	name := "bench" + strconv.Itoa(c.databases)
	create := "CREATE DATABASE " + name
	if like != "" {
		from := get(url.Parse(like))
		create += " TEMPLATE " + strings.TrimPrefix(from.Path, "/")
		if c.version >= 150000 { // as files, as it always was before; through the log it would push all else out of the buffers
			create += " STRATEGY file_copy"
		}
	}
	get(c.admin.Exec(ctx, create))
	u := get(url.Parse(c.server.SuperuserURL()))
	u.Path = "/" + name
	return u.String(), func() {
		_, _ = c.admin.Exec(context.WithoutCancel(ctx), "DROP DATABASE "+name+" WITH (FORCE)")
	}
}

// store makes an empty, migrated database.
func (c *cluster) store(ctx context.Context) (*database.Store, string, func()) {
	address, drop := c.database(ctx, "")
	must(database.Migrate(ctx, address))
	store := get(database.Open(ctx, address, database.Options{Replica: "bench"}))
	return store, address, func() { store.Close(); drop() }
}

// checkpoint starts each measurement from the same place: what was written before it is on disk.
func (c *cluster) checkpoint(ctx context.Context) {
	get(c.admin.Exec(ctx, "CHECKPOINT"))
}

// processor is the time that both sides have spent on processors: this process, and every process of PostgreSQL.
type processor struct{ here, server time.Duration }

func (c *cluster) processor() processor {
	var self syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &self)
	p := processor{here: time.Duration(self.Utime.Nano() + self.Stime.Nano())}
	all, _ := procfs.AllProcs()
	for _, one := range all {
		s, err := one.Stat()
		switch {
		case err != nil:
		case s.PID == c.postmaster:
			p.server += spent(s) + tick*time.Duration(s.CUTime+s.CSTime) // with its children that have ended
		case s.PPID == c.postmaster:
			p.server += spent(s)
		}
	}
	return p
}

// tick is the kernel's unit of processor time.
const tick = time.Second / 100

// spent is the processor time of a process, without its children.
func spent(s procfs.ProcStat) time.Duration { return tick * time.Duration(s.UTime+s.STime) }

func (p processor) since(before processor) processor {
	return processor{p.here - before.here, p.server - before.server}
}

func procStat(pid int) (procfs.ProcStat, error) { return get(procfs.NewProc(pid)).Stat() }

// wal is how far the log has come, in bytes.
func (c *cluster) wal(ctx context.Context) (at int64) {
	must(c.admin.QueryRow(ctx, "SELECT pg_current_wal_insert_lsn() - '0/0'").Scan(&at))
	return at
}

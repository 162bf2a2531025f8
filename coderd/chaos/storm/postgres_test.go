package storm_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/embedded"
)

// postgres is the database server, on a disk of its own where that can be had.
type postgres struct {
	t       testing.TB
	dir     string
	small   bool   // the disk is a small one, which can be filled
	address string // HOST:PORT
	cluster *embedded.Cluster

	mu sync.Mutex // held by one fault at a time
}

// startPostgres listens at an address of its own, so that its port is free whoever else runs one.
func startPostgres(t testing.TB, r *rand.Rand, dir string, length time.Duration) *postgres {
	t.Helper()
	p := &postgres{t: t, dir: dir}
	require.NoError(t, os.Mkdir(dir, 0o755))
	size := 320 + 8*int(length.Minutes())
	err := syscall.Mount("prewarm-chaos", dir, "tmpfs", 0, fmt.Sprintf("size=%dm,mode=0755", size))
	if p.small = err == nil; p.small {
		t.Cleanup(func() { eventually(t, "the disk is put away", func() bool { return syscall.Unmount(dir, 0) == nil }) })
	} else {
		t.Logf("LEFT OUT: the disk is not filled, since a small one cannot be made: %v", err)
	}
	host := fmt.Sprintf("127.%d.%d.%d", 1+r.IntN(250), r.IntN(250), 1+r.IntN(250))
	p.address = host + ":5432"
	p.start(nil)
	hba := filepath.Join(dir, "postgres", "pg_hba.conf")
	f, err := os.OpenFile(hba, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	_, err = f.WriteString("host all all 127.0.0.0/8 trust\n")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	p.stop()
	p.start(map[string]string{
		"listen_addresses": host, "max_connections": "120",
		"max_wal_size": "96MB", "min_wal_size": "32MB", "checkpoint_timeout": "60s",
	})
	t.Cleanup(p.stop)
	return p
}

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
	if err := p.cluster.Stop(ctx); err != nil {
		p.t.Logf("stop PostgreSQL: %v", err)
	}
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

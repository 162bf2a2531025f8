package embedded

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/coder/quartz"
	"golang.org/x/xerrors"
)

const (
	orphanPoll    = 10 * time.Millisecond
	orphanGrace   = 5 * time.Second // PostgreSQL's own time-out of an immediate shutdown
	orphanTimeout = 30 * time.Second
)

// endOrphans ends the processes that the last run of PostgreSQL left on this cluster, and waits until they are gone.
// Whoever calls it holds the lock of the data directory, so their server is dead.
func endOrphans(ctx context.Context, clock quartz.Clock, cluster string) error {
	began := clock.Now()
	ticker := clock.NewTicker(orphanPoll, "embedded", "orphans")
	defer ticker.Stop()
	asked, killed := false, false
	for {
		left := orphans(cluster)
		age := clock.Since(began, "embedded", "orphans")
		switch {
		case len(left) == 0:
			return removeStalePID(cluster)
		case !asked:
			signalAll(left, syscall.SIGQUIT)
			asked = true
		case !killed && age > orphanGrace:
			signalAll(left, syscall.SIGKILL)
			killed = true
		case age > orphanTimeout:
			return xerrors.Errorf("processes %v of an earlier PostgreSQL still use %s: end them", left, cluster)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

func signalAll(pids []int, signal syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, signal) // it may be gone this moment
	}
}

// removeStalePID removes a postmaster.pid whose process id now belongs to something else, as it does after a restart
// of a container. PostgreSQL would take that for a running server. All other remains PostgreSQL clears up itself.
func removeStalePID(cluster string) error {
	pid := postmasterPID(cluster)
	if pid == 0 || !alive(pid) {
		return nil
	}
	if err := os.Remove(filepath.Join(cluster, pidFile)); err != nil {
		return xerrors.Errorf("remove stale postmaster.pid: %w", err)
	}
	return nil
}

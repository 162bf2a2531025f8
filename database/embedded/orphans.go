package embedded

import (
	"context"
	"errors"
	"io/fs"
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
			return removeStaleLocks(cluster)
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

// removeStaleLocks removes what names a process id that belongs to something else by now, as it does after a restart of
// a container, or to a postmaster whose parent has not noticed yet that it is dead. PostgreSQL would take that for a
// running server. postmaster.pid stays where it does no harm, since it leads PostgreSQL to shared memory still in use;
// all other remains PostgreSQL clears up itself.
func removeStaleLocks(cluster string) error {
	stale := []string{socketName + ".lock"}
	if pid := postmasterPID(cluster); pid != 0 && alive(pid) {
		stale = append(stale, pidFile)
	}
	for _, name := range stale {
		if err := os.Remove(filepath.Join(cluster, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return xerrors.Errorf("remove stale %s: %w", name, err)
		}
	}
	return nil
}

package embedded

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coder/quartz"
	"golang.org/x/xerrors"
)

// The names in the data directory.
const (
	lockName    = "postgres.lock"
	clusterName = "postgres"
	initPattern = "postgres.init-*"
)

// A server that was killed this moment still holds its lock until the kernel has taken it down.
const (
	lockPatience = 2 * time.Second
	lockPoll     = 20 * time.Millisecond
)

// openDataDir makes the data directory if need be, and locks it for this process.
func openDataDir(ctx context.Context, clock quartz.Clock, dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, xerrors.Errorf("create data directory: %w", err)
	}
	owner, err := ownerOf(dir)
	if err != nil {
		return nil, xerrors.Errorf("look at data directory: %w", err)
	}
	if owner != os.Geteuid() {
		return nil, foreignOwner("data directory", dir, owner)
	}
	return lock(ctx, clock, filepath.Join(dir, lockName))
}

// lock holds the lock for as long as the file is open, so at the longest for the life of this process.
func lock(ctx context.Context, clock quartz.Clock, path string) (_ *os.File, err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, xerrors.Errorf("open lock: %w", err)
	}
	defer func() {
		if err != nil {
			_ = file.Close()
		}
	}()
	err = awaitLock(ctx, clock, file)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		holder, _ := io.ReadAll(file) // only for the message
		return nil, xerrors.Errorf("data directory %s is in use by the server with process id %s: "+
			"stop that one, or choose another directory with --data-dir",
			filepath.Dir(path), strings.TrimSpace(string(holder)))
	}
	if err != nil {
		return nil, xerrors.Errorf("lock %s: %w", path, err)
	}
	if err := file.Truncate(0); err != nil {
		return nil, xerrors.Errorf("write lock: %w", err)
	}
	if _, err := fmt.Fprintf(file, "%d\n", os.Getpid()); err != nil {
		return nil, xerrors.Errorf("write lock: %w", err)
	}
	return file, nil
}

func awaitLock(ctx context.Context, clock quartz.Clock, file *os.File) error {
	began := clock.Now()
	ticker := clock.NewTicker(lockPoll, "embedded", "lock")
	defer ticker.Stop()
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) || clock.Since(began, "embedded", "lock") > lockPatience {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// clusterMajor reads which major version made the cluster; 0 if there is none yet.
func clusterMajor(cluster string) (int, error) {
	if _, err := os.Stat(cluster); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	content, err := os.ReadFile(filepath.Join(cluster, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, xerrors.Errorf("folder %s is there, but is not a PostgreSQL cluster: move it away", cluster)
	}
	if err != nil {
		return 0, xerrors.Errorf("read version of cluster: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return 0, xerrors.Errorf("read version of cluster %s: %q is not a major version", cluster, content)
	}
	return major, nil
}

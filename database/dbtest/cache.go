package dbtest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database/embedded"
)

// keptClusters is how many clusters the cache holds, so that switching between branches is quick.
const keptClusters = 4

// copyCached copies the cluster of that key into dir, making it first if the cache has none.
func copyCached(ctx context.Context, key, dir string) error {
	cache, err := cacheFolder()
	if err != nil {
		return err
	}
	unlock, err := lockCache(cache)
	if err != nil {
		return err
	}
	defer unlock()
	cached := filepath.Join(cache, key)
	if _, err := os.Stat(cached); errors.Is(err, fs.ErrNotExist) {
		if err := fill(ctx, cache, cached); err != nil {
			return xerrors.Errorf("make cluster for tests: %w", err)
		}
	}
	// cp keeps owner and mode, which PostgreSQL insists on.
	if out, err := exec.CommandContext(ctx, "cp", "-a", cached+"/.", dir).CombinedOutput(); err != nil {
		return xerrors.Errorf("copy cluster for tests: %w: %s", err, out)
	}
	return nil
}

func cacheFolder() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		base = os.TempDir() // no home, as in some containers
	}
	dir := filepath.Join(base, "prewarm", "dbtest")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", xerrors.Errorf("create cache: %w", err)
	}
	return dir, nil
}

// lockCache lets one process at a time make or copy; a copy takes some ten milliseconds.
func lockCache(cache string) (unlock func(), err error) {
	file, err := os.OpenFile(filepath.Join(cache, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, xerrors.Errorf("open cache lock: %w", err)
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(xerrors.Errorf("lock cache: %w", err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

// fill makes a cluster with the template in it. Complete ones are told by their name.
func fill(ctx context.Context, cache, cached string) error {
	removeOld(cache)
	draft := cached + ".draft"
	if err := os.RemoveAll(draft); err != nil {
		return xerrors.Errorf("remove old draft: %w", err)
	}
	cluster, err := embedded.Start(ctx, options(draft))
	if err != nil {
		return err
	}
	_, err = withTemplate(ctx, cluster.SuperuserURL())
	if err := errors.Join(err, cluster.Stop(ctx)); err != nil {
		return err
	}
	return os.Rename(draft, cached)
}

// removeOld makes room for one more cluster; errors only cost space.
func removeOld(cache string) {
	entries, err := os.ReadDir(cache)
	if err != nil {
		return
	}
	var clusters []fs.FileInfo
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && entry.IsDir() && !strings.HasSuffix(entry.Name(), ".draft") {
			clusters = append(clusters, info)
		}
	}
	slices.SortFunc(clusters, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	for _, old := range clusters[min(len(clusters), keptClusters-1):] {
		_ = os.RemoveAll(filepath.Join(cache, old.Name()))
	}
}

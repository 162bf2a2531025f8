package dbtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/xerrors"

	"github.com/prewarm-dev/prewarm/database/embedded"
)

// settings are for speed: what a test server loses in a crash nobody misses.
var settings = map[string]string{
	"fsync":              "off",
	"synchronous_commit": "off",
	"full_page_writes":   "off",
	"wal_level":          "minimal",
	"max_wal_senders":    "0",
	"max_connections":    "800", // of a whole run that shares it,
	"shared_buffers":     "128MB",
	"autovacuum_naptime": "1min",
	// Connections of tests are short: each statement would be planned again in each of its first five runs there.
	"plan_cache_mode": "force_generic_plan",
}

// memory is a file system in memory, on Linux, and minMemory what must be free for us to use it, in bytes. Databases
// are then made and dropped ten times as fast. In a container it is often too small.
const (
	memory    = "/dev/shm"
	minMemory = 2 << 30
)

// Serve starts a server that all processes of a test run can share, and returns the URL to give them in URLEnv. It ends
// with this process.
func Serve(ctx context.Context) (url string, err error) { return startOwn(ctx) }

// startOwn starts a server for this process on a copy of the cached cluster, and returns a superuser's URL.
func startOwn(ctx context.Context) (string, error) {
	template, err := templateName()
	if err != nil {
		return "", err
	}
	binaries, err := embedded.FindBinaries(ctx, 0, npmFolders()...)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(fastFolder(), "prewarm-dbtest-")
	if err != nil {
		return "", xerrors.Errorf("create folder: %w", err)
	}
	if err := removeAfterwards(dir); err != nil {
		return "", err
	}
	if err := copyCached(ctx, fmt.Sprintf("%d-%s", binaries.Major, template), dir); err != nil {
		return "", err
	}
	cluster, err := embedded.Start(ctx, options(dir))
	if err != nil {
		return "", err
	}
	return cluster.SuperuserURL(), nil
}

func fastFolder() string {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(memory, &stat); err != nil || stat.Bavail*uint64(stat.Bsize) < minMemory {
		return os.TempDir()
	}
	return memory
}

func options(dir string) embedded.Options {
	return embedded.Options{DataDir: dir, Settings: settings, NPMFolders: npmFolders()}
}

// npmFolders is build/postgres in the root of the repository, which is above the folder that a test runs in.
func npmFolders() []string {
	dir, err := os.Getwd()
	for ; err == nil && dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return []string{filepath.Join(dir, "build", "postgres")}
		}
	}
	return []string{}
}

// removeAfterwards removes dir when this process is gone: a shell waits for the end of a pipe that the kernel closes.
// PostgreSQL is then being ended too, and may still write for a moment.
func removeAfterwards(dir string) error {
	const script = `read -r _; for _ in 1 2 3 4 5 6 7 8 9 10; do rm -rf "$1" 2>/dev/null && exit; sleep 0.3; done`
	cmd := exec.Command("/bin/sh", "-c", script, "sh", dir)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // not to die of what ends the tests
	if _, err := cmd.StdinPipe(); err != nil {
		return xerrors.Errorf("create pipe: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return xerrors.Errorf("start remover of %s: %w", dir, err)
	}
	keepOpen = cmd
	return nil
}

// keepOpen keeps the pipe from being closed by the garbage collector.
var keepOpen *exec.Cmd //nolint:unused // to be held is its use

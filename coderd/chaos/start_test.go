package chaos_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
)

// The very first start is killed over and over: while initdb runs, while the cluster, the schema, the owner's token and
// the first template are made. Nothing half made stands in the way of the start that is left alone at last.
func TestKilledFirstStart(t *testing.T) {
	t.Parallel()
	r := random(t)
	dir := folder(t)
	options := e2etest.Options{DataDir: dir, Listen: freeAddress(t), Tick: time.Second, Args: []string{"--quickstart"}}

	w := &world{t: t, dir: dir, options: options}
	reached := map[string]int{}
	whole := firstStart(t)
	for i := range rounds(t) {
		most := 2 * whole * time.Duration(i+1) / time.Duration(rounds(t)) // later and later, until there is a cluster
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
			most = whole / 4 // what comes after it takes little time
		}
		w.startAndKill(20*time.Millisecond + time.Duration(r.Int64N(int64(most))))
		reached[progress(t, dir)]++
		eventually(t, "PostgreSQL and initdb end with their server", func() bool { return len(postgresOf(t, dir)) == 0 })
	}
	t.Logf("killed after: %v", reached)

	w.start()
	identity, err := w.server.Client.Whoami(context.Background())
	require.NoError(t, err, "the owner's token is good")
	assert.Equal(t, "owner", identity.Role)
	info, err := os.Stat(filepath.Join(dir, "owner-token"))
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	presets := converge(t, w.server.Client)
	require.Len(t, presets, 1)
	assert.Equal(t, 3, presets[0].Actual)
	leftovers, err := filepath.Glob(filepath.Join(dir, "postgres.init-*"))
	require.NoError(t, err)
	assert.Empty(t, leftovers)
	assert.NoFileExists(t, filepath.Join(dir, "owner-token.new"))
	verifyHistory(t, w.store())
	verifyMachine(t, w.server.Client, dir+"/local")
}

// firstStart is how long a first start takes that nobody kills, on this machine at this time.
func firstStart(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	server := e2etest.Start(t, e2etest.Options{DataDir: folder(t)})
	took := time.Since(began)
	require.Zero(t, server.Stop())
	return took
}

// progress says how far the first start came.
func progress(t *testing.T, dir string) string {
	t.Helper()
	for _, step := range []struct{ file, means string }{
		{"owner-token", "the owner's token"},
		{"owner-token.new", "a part of the owner's token"},
		{"postgres", "the cluster"},
		{"postgres.init-*", "a part of initdb"},
		{"postgres.lock", "the lock"},
	} {
		found, err := filepath.Glob(filepath.Join(dir, step.file))
		require.NoError(t, err)
		if len(found) > 0 {
			return step.means
		}
	}
	return "nothing"
}

// postgresOf finds what runs of PostgreSQL in a data directory.
func postgresOf(t *testing.T, dir string) []process {
	t.Helper()
	var found []process
	for _, pid := range allPIDs(t) {
		proc := filepath.Join("/proc", strconv.Itoa(pid))
		comm, _ := os.ReadFile(filepath.Join(proc, "comm"))
		if name := strings.TrimSpace(string(comm)); name != "postgres" && name != "initdb" {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join(proc, "cmdline"))
		cwd, _ := os.Readlink(filepath.Join(proc, "cwd"))
		if p := processOf(pid); p.alive() && (strings.Contains(string(cmdline), dir) || strings.HasPrefix(cwd, dir)) {
			found = append(found, p)
		}
	}
	return found
}

package chaos_test

import (
	"context"
	"math/rand/v2"
	"net"
	"net/url"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
)

// world is one data directory, with a PostgreSQL of its own and local workspaces, whose server comes and goes at one
// address.
type world struct {
	t       testing.TB
	dir     string
	options e2etest.Options
	server  *e2etest.Server
	client  *sdk.Client // of the address, whoever serves it
}

// newWorld starts the first server.
func newWorld(t *testing.T) *world {
	t.Helper()
	dir := folder(t)
	w := &world{t: t, dir: dir, options: e2etest.Options{
		DataDir: dir, Replica: "only", Listen: freeAddress(t), Tick: time.Second,
	}}
	w.start()
	w.client = w.server.Client
	return w
}

func (w *world) start() {
	w.t.Helper()
	w.server = e2etest.Start(w.t, w.options)
}

// startAndKill starts a server and kills it after some time, before or after it was ready.
func (w *world) startAndKill(after time.Duration) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), after)
	defer cancel()
	e2etest.Run(ctx, w.t, nil, "server", "--data-dir", w.dir, "--listen", w.options.Listen, "--tick", "1s")
}

// killServer kills the server, with which its PostgreSQL must end.
func (w *world) killServer() {
	w.t.Helper()
	database, had := postmaster(w.dir)
	w.server.Kill()
	if had {
		eventually(w.t, "PostgreSQL ends with its server", func() bool { return !database.alive() })
	}
}

// killPostmaster kills PostgreSQL's first process. False if there is none just now.
func (w *world) killPostmaster() bool {
	p, ok := postmaster(w.dir)
	return ok && syscall.Kill(p.PID, syscall.SIGKILL) == nil
}

// killBackend kills one of PostgreSQL's other processes, upon which it ends all connections and recovers. False if
// there is none just now.
func (w *world) killBackend(t *testing.T, r *rand.Rand) bool {
	p, ok := postmaster(w.dir)
	if !ok {
		return false
	}
	backends := children(t, p.PID)
	return len(backends) > 0 && syscall.Kill(backends[r.IntN(len(backends))], syscall.SIGKILL) == nil
}

// store opens the database of the running server.
func (w *world) store() *database.Store {
	w.t.Helper()
	query := url.Values{"host": {filepath.Join(w.dir, "postgres")}, "port": {"5432"}, "sslmode": {"disable"}}
	return openStore(w.t, "postgres://prewarm@/prewarm?"+query.Encode())
}

func openStore(t testing.TB, url string) *database.Store {
	t.Helper()
	store, err := database.Open(context.Background(), url, database.Options{Replica: "chaos", MaxConns: 2})
	require.NoError(t, err)
	t.Cleanup(store.Close)
	return store
}

func apply(t testing.TB, client *sdk.Client, document string) {
	t.Helper()
	_, err := client.Apply(context.Background(), sdk.ApplyRequest{Document: document})
	require.NoError(t, err)
}

// converge waits until every pool has what it desires and nothing is under way, and returns the presets.
func converge(t testing.TB, client *sdk.Client) []sdk.Preset {
	t.Helper()
	var presets []sdk.Preset
	ok := eventuallyOK(func() bool {
		var err error
		if presets, err = client.Presets(context.Background()); err != nil {
			return false
		}
		for _, p := range presets {
			if !settled(p.Counts) {
				return false
			}
		}
		return true
	})
	require.True(t, ok, "every preset converges: %+v", presets)
	return presets
}

func settled(c sdk.Counts) bool {
	return c.Actual == c.Desired && c.Eligible == c.Desired &&
		c.Starting+c.Stopping+c.Deleting+c.Outdated+c.Extraneous+c.Expired+c.Quarantined+c.Waiting == 0
}

func eventuallyOK(ok func() bool) bool {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for deadline := time.Now().Add(patience); ; <-ticker.C {
		if ok() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// freeAddress is one where nothing listens at this moment, so that a server can come back to where it was.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

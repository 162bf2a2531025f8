package chaos_test

import (
	"context"
	"net/http"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/embedded"
)

// The database goes away and comes back: stopped, so that it refuses connections, or frozen, so that it answers nothing.
// The server stays, says so meanwhile, and goes on by itself.
func TestDatabaseGoesAway(t *testing.T) {
	t.Parallel() // it mostly waits
	away := 4 * time.Second
	if thorough(t) {
		away = 20 * time.Second
	}
	dir := folder(t)
	start := func() *embedded.Cluster {
		cluster, err := embedded.Start(context.Background(), embedded.Options{DataDir: dir + "/database"})
		require.NoError(t, err)
		return cluster
	}
	cluster := start()
	stop := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		return cluster.Stop(ctx)
	}
	t.Cleanup(func() { assert.NoError(t, stop()) })
	server := e2etest.Start(t, e2etest.Options{
		PostgresURL: cluster.URL(), DataDir: dir + "/server", Tick: time.Second, Args: []string{"--quickstart"},
	})
	converge(t, server.Client)
	kept := claimOne(t, server.Client)

	t.Run("stopped", func(t *testing.T) {
		require.NoError(t, stop())
		for over := time.After(away); !done(over); <-time.After(time.Second) {
			status, retryAfter := get(t, server, "/api/v1/presets")
			assert.Equal(t, http.StatusServiceUnavailable, status)
			assert.NotEmpty(t, retryAfter)
			status, _ = get(t, server, "/readyz")
			assert.Equal(t, http.StatusServiceUnavailable, status)
			status, _ = get(t, server, "/healthz")
			assert.Equal(t, http.StatusOK, status)
		}
		cluster = start()
		goesOn(t, server, cluster.URL())
	})
	t.Run("frozen", func(t *testing.T) {
		p, ok := postmaster(dir + "/database")
		require.True(t, ok)
		frozen := append([]int{p.PID}, children(t, p.PID)...)
		signal := func(signal syscall.Signal) {
			for _, pid := range frozen {
				_ = syscall.Kill(pid, signal) // some come and go
			}
		}
		signal(syscall.SIGSTOP)
		defer signal(syscall.SIGCONT)
		for over := time.After(away); !done(over); {
			status, retryAfter := get(t, server, "/readyz")
			assert.Equal(t, http.StatusServiceUnavailable, status)
			assert.NotEmpty(t, retryAfter)
		}
		signal(syscall.SIGCONT)
		goesOn(t, server, cluster.URL())
	})
	kept.check(t)
	select {
	case <-server.Done():
		t.Error("the server has ended")
	default:
	}
}

// goesOn: passes, nudges and claims work again, without a person.
func goesOn(t *testing.T, server *e2etest.Server, url string) {
	t.Helper()
	began := time.Now()
	eventually(t, "the server is ready again", func() bool {
		status, _ := get(t, server, "/readyz")
		return status == http.StatusOK
	})
	t.Logf("ready %.2f s after the database was", time.Since(began).Seconds())
	store := openStore(t, url)
	fence := func() int { return number(t, store, "SELECT full_seq FROM reconcile_fence") }
	old := fence()
	eventually(t, "passes go on", func() bool { return fence() > old })
	converge(t, server.Client)
	claimOne(t, server.Client)
	converge(t, server.Client)
	verifyHistory(t, store)
}

func claimOne(t *testing.T, client *sdk.Client) *held {
	t.Helper()
	claim, err := client.Claim(context.Background(), sdk.ClaimRequest{
		Template: "quickstart", Preset: "default", Mode: "require",
	})
	require.NoError(t, err)
	require.Equal(t, "hit", claim.Outcome, claim.Reason)
	v := visitor{t: t}
	v.moveIn("", claim)
	return v.holds[0]
}

// get asks without the retries of the client.
func get(t *testing.T, server *e2etest.Server, path string) (status int, retryAfter string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, server.URL+path, nil)
	require.NoError(t, err)
	req.Header.Set("Authorization", "Bearer "+server.Client.Token)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("Retry-After")
}

func done(c <-chan time.Time) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

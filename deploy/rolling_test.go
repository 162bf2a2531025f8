package deploy_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// claimer claims and releases without end, and asks each thing once only: a request that is lost is a claim that failed.
type claimer struct {
	client *sdk.Client
	asked  int
	claims int // that got a workspace
	errs   []string
}

func (c *claimer) run(ctx context.Context) {
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
		claim, err := c.client.Claim(call, sdk.ClaimRequest{Template: "rolling", Preset: "one", Mode: "require"})
		c.asked++
		if err == nil && claim.WorkspaceID != nil {
			c.claims++
			_, err = c.client.ReleaseWorkspace(call, claim.WorkspaceID.String())
		}
		cancel()
		if err != nil {
			c.errs = append(c.errs, err.Error())
		}
	}
}

// Three replicas behind HAProxy are restarted one after the other, as an upgrade does, while clients claim who never ask
// twice: no request fails.
//
// PREWARM_ROUNDS=20 does it so often, and says how often a request failed; PREWARM_DRAIN=0s with another drain.
func TestRollingRestart(t *testing.T) {
	t.Parallel()                                      // it mostly waits
	drain := cmp.Or(os.Getenv("PREWARM_DRAIN"), "3s") // that of the unit and the compose file
	rounds := 1
	if n := os.Getenv("PREWARM_ROUNDS"); n != "" {
		var err error
		rounds, err = strconv.Atoi(n)
		require.NoError(t, err)
	}
	var failed atomic.Int32
	t.Run("rounds", func(t *testing.T) {
		for n := range rounds {
			t.Run(strconv.Itoa(n+1), func(t *testing.T) {
				t.Parallel() // most of a round is draining
				t.Cleanup(func() {
					if t.Failed() {
						failed.Add(1)
					}
				})
				rollingRestart(t, drain)
			})
		}
	})
	t.Logf("with a drain of %s requests failed in %d of %d rounds", drain, failed.Load(), rounds)
}

func rollingRestart(t *testing.T, drain string) {
	t.Helper()
	opts := [3]e2etest.Options{}
	servers, url, cloud := [3]*e2etest.Server{}, dbtest.URL(t), t.TempDir()
	for i := range opts {
		opts[i] = e2etest.Options{
			PostgresURL: url, DataDir: t.TempDir(), Replica: fmt.Sprintf("replica-%d", i+1), Listen: freeAddress(t),
			Tick: time.Second, Env: []string{"PREWARM_DRAIN=" + drain},
		}
	}
	b := startBalancer(t, [3]string{opts[0].Listen, opts[1].Listen, opts[2].Listen})
	for i := range opts {
		servers[i] = e2etest.Start(t, opts[i])
	}
	b.awaitUp()
	client, err := sdk.New("http://"+b.address, servers[0].Client.Token)
	require.NoError(t, err)
	client.HTTPClient = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // else it may ask twice by itself
	_, err = client.Apply(context.Background(), sdk.ApplyRequest{Document: `
providers:
  - name: cloud
    kind: sim
    config: {root: ` + cloud + `}
templates:
  - name: rolling
    provider: cloud
    spec: {create_latency: 5ms, delete_latency: 5ms}
    presets:
      - name: one
        prebuilds: {instances: 8}
`})
	require.NoError(t, err)

	underClaims(t, client, func() {
		for i := range servers {
			assert.Zero(t, servers[i].Stop(), "an orderly stop (G6)")
			servers[i] = e2etest.Start(t, opts[i])
			b.awaitUp()
		}
	})
}

// underClaims has three clients claim and release while something is done. None of their requests may fail.
func underClaims(t testing.TB, client *sdk.Client, do func()) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	claimers := []*claimer{{client: client}, {client: client}, {client: client}}
	var running sync.WaitGroup
	for _, c := range claimers {
		running.Go(func() { c.run(ctx) })
	}
	do()
	stop()
	running.Wait()
	asked, claims := 0, 0
	for _, c := range claimers {
		asked += c.asked
		claims += c.claims
		assert.Empty(t, c.errs)
	}
	t.Logf("%d claims asked for, %d got a workspace", asked, claims)
	require.Positive(t, claims)
}

package e2e_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

const poolOf20 = `
providers: [{name: cloud, kind: sim, creates_in_flight: 32, config: {root: %q}}]
templates:
  - name: a
    provider: cloud
    spec: {}
    presets: [{name: default, prebuilds: {instances: 20}}]
`

// I1: 32 claimers at once, through three servers, on a pool of 20 that nothing refills: 20 have a workspace of their own,
// and 12 are told clearly that there is none.
func TestClaimers_exactUnderConcurrency(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	servers := e2etest.StartAll(t, 3, e2etest.Options{PostgresURL: dbtest.URL(t), Tick: tick})
	admin := servers[0].Client
	apply(ctx, t, admin, poolOf20, t.TempDir())
	for round := range rounds(5) {
		eventually(t, "pool of 20", func() bool { return preset(ctx, t, admin, "a").Eligible == 20 })
		_, err := admin.Pause(ctx, sdk.PauseRequest{Scope: "global", Reason: "so that nothing refills"})
		require.NoError(t, err)

		var mu sync.Mutex
		taken, misses := map[uuid.UUID]int{}, 0
		var acts []func()
		for i := range 32 {
			acts = append(acts, func() {
				claim, err := servers[i%3].Client.Claim(ctx, sdk.ClaimRequest{Template: "a", Preset: "default", Mode: "require"})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case !assert.NoError(t, err):
				case claim.Outcome == "miss":
					misses++
					assert.Nil(t, claim.WorkspaceID)
					assert.NotEmpty(t, claim.Reason)
				default:
					assert.Equal(t, "hit", claim.Outcome)
					taken[*claim.WorkspaceID]++
				}
			})
		}
		together(acts)
		require.Len(t, taken, 20, "distinct workspaces in round %d", round)
		require.Equal(t, 12, misses, "misses in round %d", round)
		require.Zero(t, preset(ctx, t, admin, "a").Eligible)

		acts = nil
		for id := range taken {
			acts = append(acts, func() {
				_, err := admin.ReleaseWorkspace(ctx, id.String())
				assert.NoError(t, err)
			})
		}
		together(acts)
		require.NoError(t, admin.Resume(ctx, "global", ""))
	}
}

func apply(ctx context.Context, t testing.TB, client *sdk.Client, document string, args ...any) {
	t.Helper()
	_, err := client.Apply(ctx, sdk.ApplyRequest{Document: fmt.Sprintf(document, args...), File: "test.yaml"})
	require.NoError(t, err)
}

func preset(ctx context.Context, t testing.TB, client *sdk.Client, template string) sdk.Preset {
	t.Helper()
	p, err := client.Preset(ctx, template, "default")
	require.NoError(t, err)
	return p
}

// eventually polls until ok, and fails the test after a time that only a hang exceeds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, time.Minute, 10*time.Millisecond, what)
}

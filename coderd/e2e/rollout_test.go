package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/e2e/e2etest"
	"github.com/prewarm-dev/prewarm/coderd/sdk"
	"github.com/prewarm-dev/prewarm/database"
	"github.com/prewarm-dev/prewarm/database/dbtest"
)

// rolling is a pool of 4 whose version is a number of nanoseconds; spec is added to what makes it.
func rolling(root, settings, spec string, version int) string {
	return fmt.Sprintf(`
providers: [{name: cloud, kind: sim, config: {root: %q}}]
templates:
  - name: a
    provider: cloud
    rollout: {%s}
    spec: {create_latency: 1ms-%dns, ready_latency: 20ms-60ms%s}
    presets: [{name: default, prebuilds: {instances: 4}}]
`, root, settings, 10_000_000+version, spec)
}

// TestC7_rolloutUnderClaims: versions replace one another while people claim, each when the claim before was refilled.
// Every claim is a hit, and at no commit does anything but a claim leave fewer prebuilds that stay claimable than
// desired less max_unavailable, but for claims that came while a pass was under way, which it has not seen.
func TestC7_rolloutUnderClaims(t *testing.T) {
	t.Parallel()
	const desired = 4
	for _, tc := range []struct {
		settings    string
		unavailable int
	}{
		{"", 0}, {"max_surge: 25%", 0}, {"max_surge: 0, max_unavailable: 1", 1}, {"max_surge: 2, max_unavailable: 50%", 2},
	} {
		t.Run(tc.settings, func(t *testing.T) {
			ctx := context.Background()
			url, root := dbtest.URL(t), t.TempDir()
			store := dbtest.OpenURL(t, url, database.Options{})
			keepJournal(t, store)
			servers := e2etest.StartAll(t, 2, e2etest.Options{PostgresURL: url, Tick: time.Second})
			client := servers[0].Client
			full := func() bool {
				p := preset(ctx, t, client, "a")
				return p.Actual+p.Outdated >= desired-tc.unavailable && p.Eligible > 0
			}
			versions := rounds(3)
			hits := 0
			for version := range versions {
				apply(ctx, t, client, "%s", rolling(root, tc.settings, "", version))
				eventually(t, "the version to be rolled out, under claims", func() bool {
					if hits < 10*version && full() {
						claim, err := servers[hits%2].Client.Claim(ctx, sdk.ClaimRequest{
							Template: "a", Preset: "default", Mode: "require",
						})
						require.NoError(t, err)
						require.Equal(t, "hit", claim.Outcome, claim.Reason)
						hits++
					}
					p := preset(ctx, t, client, "a")
					return p.Outdated+p.Stopping+p.Deleting == 0 && p.Actual >= desired-1
				})
				eventually(t, "a full pool", func() bool { return preset(ctx, t, client, "a").Actual == desired })
			}
			commits := readJournal(t, store)
			least := checkRollouts(t, commits, desired, tc.unavailable)
			judge(t, commits)
			require.NotZero(t, hits)
			t.Logf("%d versions, %d claims, all hits; at least %d of %d stayed claimable at every commit", versions, hits,
				least, desired)
		})
	}
}

// checkRollouts goes through the commits from the first full pool on, and returns the fewest that stayed claimable.
func checkRollouts(t *testing.T, commits []commit, desired, unavailable int) (least int) {
	t.Helper()
	w := newWorld()
	stay, wasFull := 0, false
	claimed := make([]int, len(commits)+1) // before the commit of that index
	least = desired
	for i, c := range commits {
		claims := 0
		for _, ch := range c.changes {
			if ch.thing == "workspaces" && ch.was != nil && ch.is != nil && ch.was.State != "claimed" && ch.is.State == "claimed" {
				claims++
			}
			w.apply(ch)
		}
		claimed[i+1] = claimed[i] + claims
		unseen := 0
		if c.frozen {
			unseen = claimed[i] - claimed[c.saw+1]
		}
		before := stay
		stay = 0
		for _, pool := range w.pool {
			for id := range pool {
				if _, leaving := w.intents[id]; !leaving && w.workspaces[id].State == "ready" {
					stay++
				}
			}
		}
		wasFull = wasFull || stay == desired
		if !wasFull {
			continue
		}
		least = min(least, stay)
		if claims == 0 && stay < before {
			require.GreaterOrEqual(t, stay+unseen, desired-unavailable, "C7: commit %d left %d, where %d were, and no claim took one",
				c.seq, stay, before)
		}
	}
	require.True(t, wasFull)
	return least
}

// TestC7_brokenVersion: a version that cannot be built stops its rollout after a few, says why, and leaves the old pool to
// serve; going back makes what is left of it current again, without building it anew.
func TestC7_brokenVersion(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	url, root := dbtest.URL(t), t.TempDir()
	store := dbtest.OpenURL(t, url, database.Options{})
	client := e2etest.StartAll(t, 2, e2etest.Options{PostgresURL: url, Tick: time.Second})[0].Client
	apply(ctx, t, client, "%s", rolling(root, "", "", 1))
	eventually(t, "the first version", func() bool { return preset(ctx, t, client, "a").Actual == 4 })
	apply(ctx, t, client, "%s", rolling(root, "", ", fail_permanent: 1", 2))
	var stopped sdk.Preset
	eventually(t, "the rollout to stop", func() bool {
		stopped = preset(ctx, t, client, "a")
		return stopped.Rollout != nil && stopped.Rollout.Phase == "stopped" && stopped.Stopping+stopped.Deleting == 0
	})
	require.Equal(t, 4, stopped.Eligible, "the old pool serves")
	require.Contains(t, stopped.Rollout.Reason, "simulated permanent failure")
	require.Contains(t, strings.Join(stopped.Reasons, "\n"), "rollout stopped with 0 of 4 ready, 4 outdated kept")
	failures, err := client.PresetFailures(ctx, "a", "default")
	require.NoError(t, err)
	require.Equal(t, 3, failures.Streak)
	require.Len(t, failures.Causes, 1)
	require.Equal(t, "create workspace PREBUILD: simulated permanent failure", failures.Causes[0].Cause)
	require.True(t, failures.Causes[0].Permanent)
	require.LessOrEqual(t, failures.Causes[0].Count, int64(9), "three rounds of three at most")

	claim, err := client.Claim(ctx, sdk.ClaimRequest{Template: "a", Preset: "default", Mode: "require"})
	require.NoError(t, err)
	require.Equal(t, "hit", claim.Outcome)

	kept := readyIDs(ctx, t, store)
	require.Len(t, kept, 3)
	done, err := client.RollbackTemplate(ctx, "a", sdk.RollbackRequest{Reason: "it is broken"})
	require.NoError(t, err)
	require.Equal(t, sdk.RollbackResult{Template: "a", From: 2, To: 1}, done)
	eventually(t, "the old version to be whole again", func() bool {
		p := preset(ctx, t, client, "a")
		return p.Actual == 4 && p.Outdated+p.Starting == 0 && p.Rollout == nil
	})
	require.Subset(t, readyIDs(ctx, t, store), kept, "what was kept is current again")
}

func readyIDs(ctx context.Context, t *testing.T, store *database.Store) (ids []uuid.UUID) {
	t.Helper()
	rows, err := store.Pool.Query(ctx, "SELECT id FROM workspaces WHERE state = 'ready'")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var id uuid.UUID
		require.NoError(t, rows.Scan(&id))
		ids = append(ids, id)
	}
	require.NoError(t, rows.Err())
	return ids
}

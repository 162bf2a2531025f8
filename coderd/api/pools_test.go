package api_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/prewarm-dev/prewarm/coderd/sdk"
)

// A pool in one line says what its slots are, its claims by the hour, and what is wrong with it; and each workspace is in
// one count.
func TestPools(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	for state, n := range map[string]int{"ready": 4, "starting": 1, "provisioning": 1, "draining": 1, "deleting": 1, "quarantined": 1} {
		for range n {
			w.workspace("quickstart", state, "prewarm")
		}
	}
	w.workspace("quickstart", "claimed", "member")
	w.workspace("quickstart", "deleted", "prewarm")
	// Of the ready ones, one is of an older pool, one is past its TTL and one is to be drained.
	w.exec(`UPDATE workspaces SET pool_key = gen_random_uuid()
		WHERE id = (SELECT id FROM workspaces WHERE state = 'ready' ORDER BY id LIMIT 1)`)
	w.exec(`UPDATE workspaces SET expires_at = now() - interval '1 s'
		WHERE id = (SELECT id FROM workspaces WHERE state = 'ready' ORDER BY id OFFSET 1 LIMIT 1)`)
	w.exec(`INSERT INTO intents (workspace_id, incarnation, kind, reason, created_at)
		SELECT id, incarnation, 'drain', 'x', now() FROM workspaces WHERE state = 'ready' ORDER BY id OFFSET 2 LIMIT 1`)
	w.exec(`INSERT INTO claim_history (preset_id, bucket, claims, hits)
		SELECT p.id, now() - b.ago, b.claims, b.hits FROM presets p JOIN templates t ON t.id = p.template_id,
		(VALUES (interval '1 min', 5, 4), (interval '2 h 1 min', 3, 3), (interval '25 h', 7, 7)) b (ago, claims, hits)
		WHERE t.name = 'quickstart'`)
	w.exec("UPDATE autosize_progress SET counted_through = now()") // the claim of the claimed one is among those
	w.exec(`INSERT INTO preset_failures (preset_id, pool_key, streak, last_error, last_at, first_at)
		SELECT p.id, p.pool_key, 2, repeat('x', 400), now(), now() FROM presets p JOIN templates t ON t.id = p.template_id
		WHERE t.name = 'quickstart'`)

	list, err := w.as("auditor").Pools(ctx, nil, 0, "")
	require.NoError(t, err)
	require.Empty(t, list.Next)
	require.Len(t, list.Pools, 2)
	plain, pool := list.Pools[0], list.Pools[1]
	require.Equal(t, "plain", plain.Template)
	require.False(t, plain.Pool)
	require.Equal(t, []int{}, plain.Hours)
	require.Equal(t, sdk.Slots{}, plain.Slots)

	require.Equal(t, "quickstart/default", pool.Template+"/"+pool.Preset)
	require.True(t, pool.Pool)
	require.Equal(t, 3, pool.Desired)
	require.Equal(t, sdk.Slots{Ready: 1, Outdated: 1, Starting: 2, Leaving: 4, Failed: 1, Claimed: 1}, pool.Slots)
	require.Equal(t, 8, pool.Claims)
	require.Equal(t, 7, pool.Hits)
	require.Len(t, pool.Hours, 48)
	require.Equal(t, []int{3, 3, 0, 0, 5, 4}, pool.Hours[42:])
	require.Equal(t, 2, pool.Failures)
	require.Len(t, []rune(pool.Fault), 300, "long texts are cut")

	// The counts are those of the preset itself.
	preset, err := w.as("auditor").Preset(ctx, "quickstart", "default")
	require.NoError(t, err)
	require.Equal(t, preset.Actual, pool.Slots.Ready)
	require.Equal(t, preset.Outdated, pool.Slots.Outdated)
	require.Equal(t, preset.Starting, pool.Slots.Starting)
	require.Equal(t, preset.Stopping+preset.Deleting+preset.Expired, pool.Slots.Leaving)
	require.Equal(t, preset.Quarantined, pool.Slots.Failed)
	require.Equal(t, preset.Claimed, pool.Slots.Claimed)
	require.Equal(t, preset.Desired, pool.Desired)

	// Some of them, by id; one that is gone is not there.
	list, err = w.as("member").Pools(ctx, []uuid.UUID{pool.ID, uuid.New()}, 0, "")
	require.NoError(t, err)
	require.Equal(t, []sdk.Pool{pool}, list.Pools)
	// Page by page.
	list, err = w.as("member").Pools(ctx, nil, 1, "")
	require.NoError(t, err)
	require.Equal(t, []sdk.Pool{plain}, list.Pools)
	list, err = w.as("member").Pools(ctx, nil, 1, list.Next)
	require.NoError(t, err)
	require.Equal(t, []sdk.Pool{pool}, list.Pools)
	require.Empty(t, list.Next)

	for _, query := range []string{"ids=x", "after=x", "limit=501"} {
		a := w.call(w.token["member"], http.MethodGet, "/api/v1/pools?"+query, "")
		require.Contains(t, []int{http.StatusBadRequest, http.StatusUnprocessableEntity}, a.status, query)
	}
}

// A claim is seen in its pool before it is counted, once and not twice; of a storm, the first fifty are; and what asked for
// no prebuild, or for none of a pool, is not.
func TestPools_claimsNotCountedYet(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	claims := func(template, mode, outcome string, n int, ago time.Duration) {
		w.exec(`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, created_at, deadline_at)
			SELECT gen_random_uuid(), p.organization_id, p.id, $4, $2::claim_mode, 'missed', $3::claim_outcome,
				now() - make_interval(secs => $6), now()
			FROM presets p JOIN templates t ON t.id = p.template_id, generate_series(1, $5) WHERE t.name = $1`,
			template, mode, outcome, w.owner.UserID, n, ago.Seconds())
	}
	pools := func() (plain, pool sdk.Pool) {
		list, err := w.as("auditor").Pools(ctx, nil, 0, "")
		require.NoError(t, err)
		require.Len(t, list.Pools, 2)
		return list.Pools[0], list.Pools[1]
	}
	claims("quickstart", "require", "hit", 2, 0)
	claims("quickstart", "require", "miss", 1, time.Second)
	claims("quickstart", "require", "hit", 4, 25*time.Hour)
	claims("quickstart", "bypass", "cold", 1, 0)
	claims("plain", "require", "miss", 1, 0)
	plain, pool := pools()
	require.Zero(t, plain.Claims)
	require.Equal(t, []int{3, 2}, []int{pool.Claims, pool.Hits})
	require.Equal(t, []int{3, 2}, pool.Hours[46:])

	// Counted by now: those are in a bucket.
	w.exec("UPDATE autosize_progress SET counted_through = now()")
	w.exec(`INSERT INTO claim_history (preset_id, bucket, claims, hits)
		SELECT p.id, now(), 3, 2 FROM presets p JOIN templates t ON t.id = p.template_id WHERE t.name = 'quickstart'`)
	_, pool = pools()
	require.Equal(t, []int{3, 2}, []int{pool.Claims, pool.Hits})
	claims("quickstart", "require", "hit", 1, 0)
	_, pool = pools()
	require.Equal(t, []int{4, 3}, []int{pool.Claims, pool.Hits})
	claims("quickstart", "require", "hit", 200, 0)
	_, pool = pools()
	require.Equal(t, []int{53, 52}, []int{pool.Claims, pool.Hits})

	// Five at once are one request, before and after they are counted.
	w.exec("DELETE FROM claims")
	w.exec("UPDATE claim_history SET claims = 10, hits = 5, requests = 2, request_hits = 1")
	w.exec(`INSERT INTO claims (id, organization_id, preset_id, user_id, mode, state, outcome, created_at, deadline_at, group_id)
		SELECT CASE WHEN i = 1 THEN g.id ELSE gen_random_uuid() END, p.organization_id, p.id, $1, 'prefer', 'missed', 'hit', now(), now(), g.id
		FROM presets p JOIN templates t ON t.id = p.template_id, (SELECT gen_random_uuid() AS id) g, generate_series(1, 5) i
		WHERE t.name = 'quickstart'`, w.owner.UserID)
	_, pool = pools()
	require.Equal(t, []int{3, 2}, []int{pool.Claims, pool.Hits})
}

// TestPoolsAtScale: a page of the most there can be stays below 1 MB, and pools asked for by id cost what they have, not
// what there is beside them.
func TestPoolsAtScale(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	const presets, each = 600, 20
	w.exec(`INSERT INTO presets (id, organization_id, template_id, name, pool_key, instances, created_at, updated_at)
		SELECT gen_random_uuid(), p.organization_id, p.template_id, 'preset-' || n, gen_random_uuid(), 20, now(), now()
		FROM generate_series(1, $1) n, presets p JOIN templates t ON t.id = p.template_id WHERE t.name = 'quickstart'`, presets)
	w.exec(`INSERT INTO workspaces (id, name, organization_id, template_id, template_version_id, preset_id, pool_key,
		  provider, parameters, state, owner_id, created_at, state_at, ready_at)
		SELECT gen_random_uuid(), 'prebuild-' || p.name || '-' || n, p.organization_id, p.template_id, t.active_version_id, p.id,
		  p.pool_key, 'roomy', '{}', 'ready', $2, now(), now(), now()
		FROM generate_series(1, $1) n, presets p JOIN templates t ON t.id = p.template_id WHERE p.name LIKE 'preset-%'`,
		each, w.owner.UserID)
	w.exec(`INSERT INTO claim_history (preset_id, bucket, claims, hits)
		SELECT p.id, now() - n * interval '1 hour', 100000, 99999 FROM presets p, generate_series(0, 23) n`)
	w.exec(`INSERT INTO preset_failures (preset_id, pool_key, streak, last_error, last_at, first_at)
		SELECT id, pool_key, 3, repeat('x', 2000), now(), now() FROM presets`)
	w.exec("ANALYZE workspaces, presets, claim_history")

	a := w.call(w.token["owner"], http.MethodGet, "/api/v1/pools?limit=500", "")
	require.Equal(t, http.StatusOK, a.status)
	require.Less(t, len(a.body), 1<<20)

	seen, after := map[uuid.UUID]bool{}, ""
	for {
		list, err := w.as("owner").Pools(ctx, nil, 500, after)
		require.NoError(t, err)
		for _, p := range list.Pools {
			require.False(t, seen[p.ID], "twice")
			seen[p.ID] = true
			if p.Template == "quickstart" && p.Preset != "default" {
				require.Equal(t, each, p.Slots.Ready)
			}
		}
		if after = list.Next; after == "" {
			break
		}
	}
	require.Len(t, seen, presets+2)

	id := uuid.Nil
	require.NoError(t, w.store.Pool.QueryRow(ctx, "SELECT id FROM presets WHERE name = 'preset-7'").Scan(&id))
	for _, settings := range []string{"", "SET LOCAL random_page_cost = 1.1; SET LOCAL jit = on"} {
		read := 0.0
		w.explainOf("pools.sql", "PoolViews", settings, map[string]string{
			"organization_id": "'" + w.owner.OrganizationID.String() + "'", "ids": fmt.Sprintf("ARRAY['%s']::uuid[]", id),
			"after_template": "''", "after_preset": "''", "max_pools": "101",
		}).walk(func(n node) {
			if n.Relation == "workspaces" {
				read += (n.Rows + n.Removed) * n.Loops
			}
		})
		require.LessOrEqual(t, read, float64(2*each), "rows of workspaces for one pool (%s)", settings)
	}
}

// What is idle now has a cost where the template names a price, and so has each claim of the last day.
func TestPools_sayWhatIdleCosts(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t)
	cost := func() *sdk.PoolCost {
		list, err := w.as("member").Pools(ctx, nil, 0, "")
		require.NoError(t, err)
		return list.Pools[1].Cost
	}
	for range 3 {
		w.workspace("quickstart", "ready", "prewarm")
	}
	w.workspace("quickstart", "standby", "prewarm")
	require.Nil(t, cost(), "no price")
	w.exec("UPDATE templates SET idle_cost_per_hour = 0.5 WHERE name = 'quickstart'")
	require.Equal(t, &sdk.PoolCost{PerDay: 24 * 4 * 0.5}, cost(), "a stopped one costs as much where nothing else is said")
	w.exec("UPDATE templates SET stopped_cost_per_hour = 0.25 WHERE name = 'quickstart'")
	w.exec(`INSERT INTO claim_history (preset_id, bucket, claims, hits)
		SELECT p.id, now() - interval '1 h', 10, 4 FROM presets p JOIN templates t ON t.id = p.template_id WHERE t.name = 'quickstart'`)
	require.Equal(t, &sdk.PoolCost{PerDay: 24 * (3*0.5 + 0.25), PerClaim: 4.2}, cost())
}
